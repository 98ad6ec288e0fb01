"""`content=changes`: what each record created, changed or deleted, with what it was before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import pyarrow as pa

from kraft_trio.metadata.columns import TEXT, ValueType
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.history import History, Made, Origin, Problem
from kraft_trio.metadata.json_text import JsonText
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.directories.as_of import AsOf
from kraft_trio.spark.directories.reading import ROWS_A_BATCH
from kraft_trio.spark.directories.replicas import Replica
from kraft_trio.spark.metadata.arrow import column_array
from kraft_trio.spark.metadata.replaying import Replaying, Unreadable
from kraft_trio.spark.schemas import ERROR, REPLICA, Column

CHANGE_COLUMNS: Final = (
    *REPLICA,
    Column("offset", pa.int64(), "of the record; null for what a snapshot has"),
    Column("epoch", pa.int32(), "leader epoch of the record, or of the snapshot"),
    Column("timestamp", pa.timestamp("us", tz="UTC"), "of the record; null for what a snapshot has"),
    Column("controller", pa.int32(), "id of the leader of that epoch; null if the log does not tell"),
    Column("record", pa.string(), "type of the record, as Kafka's tools name it"),
    Column("entity", pa.string(), "the kind of thing, as `content` names it"),
    Column("key", pa.string(), "which one, such as `orders-7` for a partition"),
    Column(
        "operation",
        pa.string(),
        "create, update, delete, or snapshot: it exists where the log begins, because a snapshot has it",
    ),
    Column("changed", pa.list_(pa.field("element", pa.string())), "the fields whose values an update changed"),
    Column("before", pa.string(), "the row of `content=`*entity* before, as a JSON object; null for create"),
    Column("after", pa.string(), "that row afterwards; null for delete"),
    ERROR,
)
"""The columns of `content=changes`."""


@attrs.frozen
class ChangeRow:
    """One change, in plain values."""

    origin: Origin
    controller: int | None
    record: str
    entity: str
    key: str
    operation: str
    changed: list[str]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def rows_of(made: Made) -> Iterator[ChangeRow]:
    """A row for each change that a record has made."""
    for change in made.changes:
        entity = ENTITIES[change.entity]
        before = None if change.before is None else entity.values(change.before, change.topic)
        after = None if change.after is None else entity.values(change.after, change.topic)
        operation, changed = compared(before, after)
        changed = changed or hidden_changes(change.before, change.after)
        key = entity.label(after or before or {})
        yield ChangeRow(
            made.origin, made.controller, made.record, change.entity, key, operation, changed, before, after
        )


def existing_rows(history: History) -> Iterator[ChangeRow]:
    """A row for each thing that exists where a history begins."""
    origin = Origin(None, history.newest.epoch, None)
    for entity in ENTITIES.values():
        record = entity.schema.type_name
        for row in entity.rows(history.image):
            yield ChangeRow(origin, None, record, entity.name, entity.label(row), "snapshot", [], None, row)


def compared(before: dict[str, Any] | None, after: dict[str, Any] | None) -> tuple[str, list[str]]:
    """The operation that leads from one row to the other, and the fields that an update changed."""
    if before is None or after is None:
        return "create" if before is None else "delete", []
    return "update", [name for name in after if after[name] != before[name]]


def hidden_changes(before: Any, after: Any) -> list[str]:
    """The fields in which a record differs from the one before it, if the rows of both show the same: passwords."""
    if before is None or after is None:
        return []
    names = [field.name for field in attrs.fields(type(after))]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def replica_changes(replaying: Replaying, start: int) -> Iterator[ChangeRow | Problem | Unreadable]:
    """The changes from offset `start` (inclusive) on, and what is wrong.

    If the log begins above `start`, what its snapshot has comes first.
    """
    yield from replaying.load()
    if replaying.base is not None and replaying.base.id.offset > start:
        yield from existing_rows(replaying.history)
    for step in replaying.follow():
        if not isinstance(step, Made):
            yield step
        elif step.origin.offset is not None and step.origin.offset >= start:
            yield from rows_of(step)


def change_rows(
    replica: Replica, start: int, as_of: AsOf, schema: pa.Schema, entities: frozenset[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of `CHANGE_COLUMNS`, or of those in the schema; only of some entities if they are given."""
    rows = Rows(schema, replica.columns)
    if replica.error is not None and not replica.partition:
        yield rows.one(error=replica.error)
    some: list[ChangeRow] = []
    for step in replica_changes(Replaying(replica, as_of, begin=start, entities=entities), start):
        if not isinstance(step, ChangeRow):
            if some:
                yield change_batch(some, rows)
                some = []
            yield rows.one(error=step.reason, **_place(step))
        elif entities is None or step.entity in entities:
            some.append(step)
            if len(some) == ROWS_A_BATCH:
                yield change_batch(some, rows)
                some = []
    if some:
        yield change_batch(some, rows)


def _place(step: Problem | Unreadable) -> dict[str, Any]:
    if isinstance(step, Unreadable):
        return {"offset": step.offset}
    return {"offset": step.origin.offset, "epoch": step.origin.epoch, "record": step.record}


def change_batch(changes: list[ChangeRow], rows: Rows) -> pa.RecordBatch:
    """The Arrow batch of these changes."""

    def texts(name: str) -> pa.Array:
        return pa.array([getattr(one, name) for one in changes], pa.string())

    def objects(name: str) -> pa.Array:
        return pa.array([as_json(getattr(one, name)) for one in changes], pa.string())

    return rows.make(
        len(changes),
        {
            "offset": lambda: pa.array([one.origin.offset for one in changes], pa.int64()),
            "epoch": lambda: pa.array([one.origin.epoch for one in changes], pa.int32()),
            "timestamp": lambda: pa.array([one.origin.timestamp_us for one in changes], pa.int64()).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "controller": lambda: pa.array([one.controller for one in changes], pa.int32()),
            "record": lambda: texts("record"),
            "entity": lambda: texts("entity"),
            "key": lambda: texts("key"),
            "operation": lambda: texts("operation"),
            "changed": lambda: column_array([one.changed for one in changes], ValueType(TEXT, is_array=True)),
            "before": lambda: objects("before"),
            "after": lambda: objects("after"),
        },
    )


def as_json(values: dict[str, Any] | None) -> str | None:
    """A row as JSON."""
    return None if values is None else _JSON(values)


_JSON: Final = JsonText(separators=(",", ":"))
