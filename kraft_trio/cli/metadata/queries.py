"""Answers questions about the metadata in replicas' directories.

`sql` is imported where a question is asked in SQL: importing DuckDB takes longer than reading a small cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from kraft_trio.cli.metadata.choice_of_replica import end_of, furthest
from kraft_trio.errors import ConfigError
from kraft_trio.metadata.columns import TIME_MS
from kraft_trio.metadata.entities import ENTITIES, Entity
from kraft_trio.metadata.history import Problem
from kraft_trio.metadata.image import Image
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.directories.as_of import AsOf
from kraft_trio.spark.directories.replicas import Replica
from kraft_trio.spark.file_system import printable
from kraft_trio.spark.metadata.changes import (
    CHANGE_COLUMNS,
    ChangeRow,
    as_json,
    change_batch,
    compared,
    hidden_changes,
    replica_changes,
)
from kraft_trio.spark.metadata.replaying import Replaying, Unreadable
from kraft_trio.spark.metadata.state import END_OFFSET, image_rows, state_columns
from kraft_trio.spark.schemas import CHANGES, ERROR, REPLICA, Column, arrow_schema

_OF_DIRECTORY: Final = {column.name for column in (*REPLICA, END_OFFSET, ERROR)}


@attrs.frozen
class Found:
    """An answer."""

    rows: Sequence[dict[str, Any]]
    arrow: Callable[[], pa.Table]
    """The same as a table."""
    source: str
    """Whose state it is, as a sentence for people."""
    problems: Sequence[str]
    """What was unreadable or refused."""


def state(directories: Sequence[str], entity: Entity, as_of: AsOf | None, where: str | None) -> Found:
    """The things of one kind.  Raises ConfigError for a condition that DuckDB refuses."""
    replica = furthest(directories)
    replaying = Replaying(replica, as_of or AsOf(), entities=(entity.name,))
    problems = [one.reason for one in replaying.run()]
    image = replaying.history.image
    if where is None:
        # A table has times where records have milliseconds.
        has_times = any(type.kind == TIME_MS for _, type in entity.types)
        rows = _state_table(image, entity).to_pylist() if has_times else list(entity.rows(image))
        return Found(rows, lambda: _state_table(image, entity), _source(replica, replaying), problems)
    from kraft_trio.cli.metadata.sql import rows_of, selected

    query = f"SELECT * FROM {entity.name} WHERE {where}"
    found = selected({entity.name: _state_table(image, entity)}, query)
    return Found(rows_of(query, found), lambda: found, _source(replica, replaying), problems)


def changes(
    directories: Sequence[str],
    since: AsOf | None,
    until: AsOf | None,
    entities: Sequence[str],
    keys: Sequence[str],
    where: str | None,
) -> Found:
    """The changes between two moments.  Raises ConfigError for a condition that DuckDB refuses."""
    replica = furthest(directories)
    start = since or AsOf(0)
    first = 0 if start.timestamp_us is not None else start.offset
    replaying = Replaying(replica, until or AsOf(), begin=first, entities=entities or None)
    problems: list[str] = []
    kept = [
        one
        for one in _changes(replica_changes(replaying, first), problems)
        if _is_after(one, start.timestamp_us)
        and (not entities or one.entity in entities)
        and (not keys or one.key in keys)
    ]
    found = _changes_table(kept)
    if where is not None:
        from kraft_trio.cli.metadata.sql import selected

        found = selected({CHANGES: found}, f"SELECT * FROM {CHANGES} WHERE {where}")
    return Found(found.to_pylist(), lambda: found, _source(replica, replaying), problems)


def differences(first: str, second: str | None, start: AsOf | None, end: AsOf | None) -> Found:
    """What differs between two moments of a replica, or between two replicas."""
    replicas = [furthest([first]), furthest([second or first])]
    clusters = [one.cluster_id for one in replicas]
    if None not in clusters and clusters[0] != clusters[1]:
        raise ConfigError(f"diff: directories of two clusters, {clusters[0]} and {clusters[1]}; expected one")
    moments = [start or AsOf(), end or AsOf()]
    if second is not None and start is None and end is None:
        moments = [AsOf(min(end_of(replica).offset for replica in replicas))] * 2
    replayings = [Replaying(replica, moment) for replica, moment in zip(replicas, moments, strict=True)]
    problems = [one.reason for replaying in replayings for one in replaying.run()]
    before, after = (_by_label(replaying.history.image) for replaying in replayings)
    rows = [
        _difference(*place[:2], before.get(place, _NOTHING), after.get(place, _NOTHING))
        for place in dict.fromkeys((*before, *after))
        if before.get(place) != after.get(place)
    ]
    sources = " and ".join(_source(one.replica, one) for one in replayings)
    return Found(rows, lambda: pa.Table.from_pylist(rows), sources, problems)


def answer(query: str, directories: Sequence[str], as_of: AsOf | None) -> Found:
    """The result of a query over the tables that it names.  Raises ConfigError if DuckDB refuses it."""
    from kraft_trio.cli.metadata.sql import rows_of, selected, tables_in

    named = tables_in(query) & {*ENTITIES, CHANGES}
    replica = furthest(directories)
    problems: list[str] = []
    tables = {}
    if CHANGES in named:
        replaying = Replaying(replica, as_of or AsOf(), begin=0)
        tables[CHANGES] = _changes_table(list(_changes(replica_changes(replaying, 0), problems)))
    else:
        replaying = Replaying(replica, as_of or AsOf(), entities=named)
        problems += [one.reason for one in replaying.run()]
    for name in named - {CHANGES}:
        tables[name] = _state_table(replaying.history.image, ENTITIES[name])
    found = selected(tables, query)
    return Found(rows_of(query, found), lambda: found, _source(replica, replaying), problems)


def _columns(columns: Iterable[Column]) -> pa.Schema:
    return arrow_schema(column for column in columns if column.name not in _OF_DIRECTORY)


def _state_table(image: Image, entity: Entity) -> pa.Table:
    schema = _columns(state_columns(entity))
    return pa.Table.from_batches(image_rows(image, entity, Rows(schema, {})), schema)


def _changes_table(rows: list[ChangeRow]) -> pa.Table:
    schema = _columns(CHANGE_COLUMNS)
    return pa.Table.from_batches([change_batch(rows, Rows(schema, {}))] if rows else [], schema)


def _changes(steps: Iterable[ChangeRow | Problem | Unreadable], problems: list[str]) -> Iterator[ChangeRow]:
    for step in steps:
        if isinstance(step, ChangeRow):
            yield step
        else:
            problems.append(step.reason)


def _is_after(row: ChangeRow, timestamp_us: int | None) -> bool:
    if timestamp_us is None:
        return True
    return (row.origin.timestamp_us or 0) > timestamp_us


_NOTHING: Final = None, None


def _by_label(image: Image) -> dict[tuple[str, str, int], tuple[Any, dict[str, Any]]]:
    """Each thing as its record and its row, by kind, label, and number among those that have the same label."""
    found: dict[tuple[str, str, int], tuple[Any, dict[str, Any]]] = {}
    known: Counter[tuple[str, str]] = Counter()
    for entity in ENTITIES.values():
        for record, row in zip(image.things(entity.name), entity.rows(image), strict=True):
            place = entity.name, entity.label(row)
            found[*place, known[place]] = record, row
            known[place] += 1
    return found


def _difference(entity: str, key: str, before: tuple[Any, Any], after: tuple[Any, Any]) -> dict[str, Any]:
    operation, changed = compared(before[1], after[1])
    return {
        "entity": entity,
        "key": key,
        "operation": operation,
        "changed": changed or hidden_changes(before[0], after[0]),
        "before": as_json(before[1]),
        "after": as_json(after[1]),
    }


def _source(replica: Replica, replaying: Replaying) -> str:
    node = "a node" if replica.node_id is None else f"node {replica.node_id}"
    return f"{node}, {printable(replica.directory)}, up to offset {replaying.end}"
