"""The audit's tables about the metadata of Apache Kafka: changes, transactions, and what snapshots have.

A log is Kafka's metadata if its first record that is not a control record has the frame of KIP-631 and a known type.
The logs of other applications have no rows here, so that their values accuse nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

import attrs
import pyarrow as pa

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.history import Problem
from kraft_trio.protocol.metadata_transactions import ABORT, BEGIN, END
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.directories.as_of import AsOf, Base, log_records, snapshot_records
from kraft_trio.spark.directories.reading import ROWS_A_BATCH
from kraft_trio.spark.directories.replicas import Replica, StoredFile
from kraft_trio.spark.file_system import REQUESTS_AT_A_TIME
from kraft_trio.spark.metadata.changes import CHANGE_COLUMNS, as_json, change_rows
from kraft_trio.spark.metadata.replaying import Replaying
from kraft_trio.spark.schemas import ERROR, REPLICA, Column, arrow_schema
from kraft_trio.wire.metadata_frame import MetadataFrame, decode_metadata_frame
from kraft_trio.wire.metadata_schemas import SCHEMAS

_LEFT_OUT: Final = ("timestamp", "controller", "before")
_RECORD: Final = pa.schema(
    {
        "offset": pa.int64(),
        "epoch": pa.int32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "control": pa.bool_(),
        "value": pa.binary(),
        ERROR.name: ERROR.type,
    }.items()
)
_TRANSACTIONS: Final = {BEGIN: "begin", END: "end", ABORT: "abort"}

METADATA_TABLES: Final[Mapping[str, tuple[Column, ...]]] = {
    "metadata_changes": tuple(column for column in CHANGE_COLUMNS if column.name not in _LEFT_OUT),
    "metadata_transactions": (
        *REPLICA,
        Column("offset", pa.int64(), "of the record"),
        Column("type", pa.string(), "begin, end or abort"),
        ERROR,
    ),
    "metadata_snapshots": (
        *REPLICA,
        Column("end_offset", pa.int64(), "of the snapshot, exclusive"),
        Column("epoch", pa.int32(), "of the snapshot"),
        Column("entity", pa.string(), "the kind of thing that the snapshot has"),
        Column("key", pa.string(), "which one"),
        Column("value", pa.string(), "its row as a JSON object"),
        Column("record", pa.string(), "in a row with `error`: the type of the record that is refused"),
        ERROR,
    ),
}
"""The columns of each table."""


def with_metadata(replicas: Sequence[Replica]) -> list[Replica]:
    """Those that have metadata of Kafka's."""
    with ThreadPoolExecutor(REQUESTS_AT_A_TIME) as pool:
        return [one for one, has in zip(replicas, pool.map(_has_metadata, replicas), strict=True) if has]


def metadata_rows(table: str, replica: Replica) -> Iterator[pa.RecordBatch]:
    """The rows of one of METADATA_TABLES."""
    return _MAKERS[table](replica, arrow_schema(METADATA_TABLES[table]))


def _has_metadata(replica: Replica) -> bool:
    with closing(_values(replica)) as values:
        first = next(values, None)
    return first is not None and _is_known(first)


def _values(replica: Replica) -> Generator[bytes, None, None]:
    """The values of intact records: of snapshots, the oldest first, and then of the log."""
    if not replica.partition:
        return
    for id, file in replica.snapshots:
        yield from _intact(snapshot_records(replica, Base(id, file), _RECORD))
    yield from _intact(log_records(replica, 0, AsOf(), _RECORD))


def _intact(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("control", "value", ERROR.name))
        for is_control, value, error in zip(*columns, strict=True):
            if error is None and not is_control:
                yield value or b""


def _frame(value: bytes | None) -> MetadataFrame | None:
    try:
        return decode_metadata_frame(value or b"")
    except ProtocolError:
        return None


def _is_known(value: bytes) -> bool:
    frame = _frame(value)
    return frame is not None and frame.api_key in SCHEMAS


def _changes(replica: Replica, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return change_rows(replica, 0, AsOf(), schema)


def _transactions(replica: Replica, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = Rows(schema, replica.columns)
    for batch in log_records(replica, 0, AsOf(), _RECORD):
        columns = (batch.column(name).to_pylist() for name in ("offset", "control", "value", ERROR.name))
        found = [
            {"offset": offset, "type": _TRANSACTIONS[frame.api_key]}
            for offset, is_control, value, error in zip(*columns, strict=True)
            if error is None and not is_control
            if (frame := _frame(value)) is not None and frame.api_key in _TRANSACTIONS
        ]
        if found:
            yield rows.some(found)


def _snapshots(replica: Replica, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for id, file in replica.snapshots:
        yield from _snapshot(replica, id, file, schema)


def _snapshot(replica: Replica, id: OffsetAndEpoch, file: StoredFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    alone = attrs.evolve(replica, segments=(), snapshots=((id, file),))
    replaying = Replaying(alone, AsOf(id.offset))
    problems = replaying.run()
    rows = Rows(schema, {**replica.columns, "end_offset": id.offset, "epoch": id.epoch})
    if problems:
        yield rows.some([{"error": one.reason, "record": _record_of(one)} for one in problems])
    some: list[dict[str, Any]] = []
    for entity in ENTITIES.values():
        for row in entity.rows(replaying.history.image):
            some.append({"entity": entity.name, "key": entity.label(row), "value": as_json(row)})
            if len(some) == ROWS_A_BATCH:
                yield rows.some(some)
                some = []
    if some:
        yield rows.some(some)


def _record_of(problem: object) -> str | None:
    return problem.record if isinstance(problem, Problem) else None


_MAKERS: Final[Mapping[str, Callable[[Replica, pa.Schema], Iterator[pa.RecordBatch]]]] = {
    "metadata_changes": _changes,
    "metadata_transactions": _transactions,
    "metadata_snapshots": _snapshots,
}
