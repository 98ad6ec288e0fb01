"""Reads pieces as Arrow batches: the work of one task of the source `kraft`, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import attrs
import pyarrow as pa

from kraft_trio.errors import StorageError
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.batch_rows import batch_rows, damage_row
from kraft_trio.spark.decoding.byte_source import FileSource
from kraft_trio.spark.decoding.control_rows import control_rows, ends_with_footer
from kraft_trio.spark.decoding.damage import Damage
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.part import FileEnd, Part, scan_part
from kraft_trio.spark.decoding.record_rows import record_rows
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.decoding.seam import seam_error
from kraft_trio.spark.decoding.snapshot_rows import snapshot_row
from kraft_trio.spark.decoding.state_rows import epoch_rows, quorum_state_row
from kraft_trio.spark.directories.files import files_of, read_all
from kraft_trio.spark.directories.pieces import Kind, NextSegment, Piece
from kraft_trio.spark.directories.replicas import partition_topic
from kraft_trio.spark.file_system import printable
from kraft_trio.spark.schemas import CONTENTS, ERROR
from kraft_trio.spark.values import NEEDED, with_values
from kraft_trio.storage.batches.batch_header import HEADER_BYTES

ROWS_A_BATCH = 10_000
"""The batch size with the lowest cost per row in Spark."""
BYTES_A_BATCH = 32 * 1024 * 1024
"""Upper limit for combining batches, so that a task's memory does not grow with the records."""
_POSITION = "position"


@attrs.frozen
class ReadPlan:
    """The settings that all tasks of a query share."""

    content: str
    schema: pa.Schema
    """The schema of the rows: any of the content's columns."""
    wanted: BatchFilter
    is_fail_fast: bool
    value_fields: tuple[pa.Field, ...] = ()
    """The columns that come from record values."""


def read_pieces(pieces: Iterable[Piece], plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """The rows of the pieces, in order.

    Damage becomes a row with `error`.  If the plan says so, it raises StorageError naming file, position and
    expectation instead.
    """
    batches = (batch for piece in pieces for batch in _checked(piece, plan))
    return _joined(batch for batch in batches if batch.num_rows)


def _checked(piece: Piece, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """The rows of one piece.  Raises for damage if the plan allows no errors."""
    if not plan.is_fail_fast:
        yield from _rows_with_values(piece, plan, plan.schema)
        return
    schema = _with_fields(plan.schema, {ERROR.name: ERROR.type, _POSITION: pa.int64()})
    for batch in _rows_with_values(piece, plan, schema):
        errors = batch.column(ERROR.name).drop_null()
        if len(errors):
            row = next(row for row in batch.select([ERROR.name, _POSITION]).to_pylist() if row[ERROR.name])
            raise StorageError(_located(printable(piece.path), row))
        yield batch.select(plan.schema.names)


def _located(path: str, row: dict[str, Any]) -> str:
    error, position = row[ERROR.name], row[_POSITION]
    if position is not None:
        return f"{path}: position {position}: {error}"
    return str(error) if str(error).startswith(path) else f"{path}: {error}"


def _rows_with_values(piece: Piece, plan: ReadPlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Add the columns that come from values, if any."""
    if not plan.value_fields:
        yield from _rows_of(piece, plan, schema)
        return
    of_values = [field.name for field in plan.value_fields]
    decoded = pa.schema([field for field in schema if field.name not in of_values])
    needed = {column.name: column.type for column in CONTENTS[plan.content] if column.name in NEEDED}
    for batch in _rows_of(piece, plan, _with_fields(decoded, needed)):
        yield with_values(batch, schema, list(plan.value_fields))


def _with_fields(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Append the missing columns."""
    return pa.schema([*schema, *(pa.field(name, type) for name, type in types.items() if name not in schema.names)])


def _rows_of(piece: Piece, plan: ReadPlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    constants: dict[str, Any] = {
        **piece.replica.columns,
        "topic": partition_topic(piece.replica.partition),
        "partition": 0,
    }
    if piece.kind is Kind.SEGMENT:
        constants["segment"] = int(piece.path.rpartition("/")[2].partition(".")[0])
    elif plan.content == "snapshots":
        constants |= {"end_offset": piece.snapshot_id.offset, "epoch": piece.snapshot_id.epoch}
    elif piece.kind is Kind.SNAPSHOT:
        constants |= {"snapshot_end_offset": piece.snapshot_id.offset, "snapshot_epoch": piece.snapshot_id.epoch}
    rows = Rows(schema, constants)
    try:
        if piece.kind is Kind.PROBLEM:
            yield rows.one(error=piece.replica.error)
        elif piece.kind is Kind.FILE:
            data = read_all(files_of(piece.path), piece.path)
            make = quorum_state_row if plan.content == "quorum-state" else epoch_rows
            yield make(piece.path, data, rows)
        else:
            yield from _rows_of_batches(piece, plan, rows)
    except OSError as error:
        yield rows.one(error=f"{piece.path}: cannot be read: {error.strerror or error}")


def _rows_of_batches(piece: Piece, plan: ReadPlan, rows: Rows) -> Iterator[pa.RecordBatch]:
    with closing(files_of(piece.path).open(piece.path)) as file:
        source = FileSource(piece.path, file.seek(0, 2), file)
        if plan.content == "snapshots":
            yield snapshot_row(source, piece.snapshot_id, rows)
            return
        has_footer = False
        part = Part(piece.start, piece.end, piece.file_size, piece.expectation, piece.may_be_preallocated)
        for found in scan_part(source, part):
            if isinstance(found, FileEnd):
                yield from _rows_of_end(piece, found, has_footer, rows)
            elif isinstance(found, Damage):
                has_footer = False
                yield damage_row(found, rows)
            else:
                has_footer = piece.kind is Kind.SNAPSHOT and ends_with_footer(found)
                run = plan.wanted.select(found)
                if plan.content == "batches":
                    yield batch_rows(run, rows)
                elif plan.content == "control":
                    yield from control_rows(run, rows, plan.wanted)
                else:
                    yield from record_rows(run, rows, plan.wanted)


def _rows_of_end(piece: Piece, end: FileEnd, has_footer: bool, rows: Rows) -> Iterator[pa.RecordBatch]:
    if piece.kind is Kind.SNAPSHOT and not has_footer:
        yield rows.one(position=end.position, error=f"the snapshot ends at position {end.position} without its footer")
    if piece.next_segment is not None:
        error = _seam_error(end.expectation, piece.next_segment)
        if error is not None:
            yield rows.one(position=end.position, size=0, error=error)


def _seam_error(expectation: Expectation, following: NextSegment) -> str | None:
    try:
        with closing(files_of(following.path).open(following.path)) as file:
            start = file.read(HEADER_BYTES)
    except FileNotFoundError:
        # The file has vanished since the directory was listed; reading it reports that.
        return None
    except OSError:
        start = b""
    return seam_error(expectation, following.base_offset, start)


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine the rows into batches that are neither small nor very large."""
    small: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        small.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= ROWS_A_BATCH or size >= BYTES_A_BATCH:
            yield from _together(small)
            small, count, size = [], 0, 0
    if small:
        yield from _together(small)


def _together(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    for batch in batches:
        for start in range(0, batch.num_rows, 2 * ROWS_A_BATCH):
            yield batch.slice(start, 2 * ROWS_A_BATCH)
