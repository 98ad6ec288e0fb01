"""What the tests of tables share: random logs, what they hold as storage.batches.batch says, and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from unittest import mock

import attrs
from hypothesis import strategies as st

from kraft_trio.spark.decoding import record_starts
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.batch_rows import batch_rows, damage_row
from kraft_trio.spark.decoding.control_rows import control_rows
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.record_rows import record_rows
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.decoding.scan import Run, scan
from kraft_trio.spark.schemas import BATCHES, CONTROL, RECORD_HEADERS, RECORDS, Column, arrow_schema
from kraft_trio.storage.batches.batch import (
    Compression,
    NewRecord,
    decode_records,
    encode_batch,
    encode_control_batch,
    iter_headers,
    patch_base_offset_and_epoch,
)
from kraft_trio.storage.batches.batch_header import LOG_APPEND_TIME_ATTRIBUTE, patch_crc
from kraft_trio.storage.batches.control_records import KRaftVersion, LeaderChange

ATTRIBUTES_LOW_BYTE = 22
COLUMNS = {"records": (*RECORDS[:-1], RECORD_HEADERS, RECORDS[-1]), "batches": BATCHES, "control": CONTROL}
EXACT = ("offset", "timestamp_ms", "key", "value", "headers")

TIMES_MS = st.integers(-1, 2**42)
BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
NEW_RECORDS = st.builds(
    NewRecord, value=BYTES, key=BYTES, headers=st.just(()) | HEADERS, timestamp_ms=st.none() | TIMES_MS
)


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    """One batch, its offset and epoch yet to be set."""
    timestamp_ms = draw(TIMES_MS)
    if draw(st.integers(0, 4)) == 0:
        control = draw(st.sampled_from([LeaderChange(1, (1, 2, 3), (1, 2)), KRaftVersion(1)]))
        return bytearray(encode_control_batch([control], timestamp_ms=timestamp_ms))
    batch = bytearray(
        encode_batch(
            draw(st.lists(NEW_RECORDS, min_size=1, max_size=12)),
            timestamp_ms=timestamp_ms,
            producer_id=draw(st.sampled_from([-1, 7])),
            transactional=draw(st.booleans()),
            compression=draw(st.sampled_from([Compression.NONE, *Compression])),
        )
    )
    if draw(st.booleans()):
        batch[ATTRIBUTES_LOW_BYTE] |= LOG_APPEND_TIME_ATTRIBUTE
        patch_crc(batch)
    return batch


@st.composite
def logs(draw: st.DrawFn, min_batches: int = 1) -> list[bytes]:
    """The batches of a log from offset 0 on, epochs never falling."""
    made = []
    offset, epoch = 0, draw(st.integers(0, 5))
    for batch in draw(st.lists(batches(), min_size=min_batches, max_size=8)):
        epoch += draw(st.sampled_from([0, 0, 1, 3]))
        patch_base_offset_and_epoch(batch, 0, offset, epoch)
        [(_, header)] = iter_headers(batch)
        offset = header.next_offset
        made.append(bytes(batch))
    return made


@attrs.frozen
class Table:
    """Rows by the names of their columns."""

    rows: list[dict[str, Any]]

    @property
    def sound(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["error"] is None]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["error"] is not None]


@attrs.frozen
class Counted:
    """See `ByteSource`."""

    data: bytes
    reads: list[int] | None
    path: str = "segment"

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        found = self.data[position : position + size]
        if self.reads is not None:
            self.reads.append(len(found))
        return found


def read(
    data: bytes,
    content: str = "records",
    *,
    chunk_bytes: int = 1 << 20,
    wanted: BatchFilter | None = None,
    columns: Sequence[Column] | None = None,
    reads: list[int] | None = None,
    side_by_side: bool | None = None,
    may_be_preallocated: bool = False,
) -> Table:
    """The rows of a segment that begins at offset 0; how many bytes each read took goes to `reads`.

    `side_by_side` is how record starts are found; None where that is left to the decoder.  What is preallocated gives
    no row.
    """
    if side_by_side is not None:
        with mock.patch.object(record_starts, "_STEP_NS", 0 if side_by_side else 10**12):
            return read(
                data,
                content,
                chunk_bytes=chunk_bytes,
                wanted=wanted,
                columns=columns,
                reads=reads,
                may_be_preallocated=may_be_preallocated,
            )
    rows = Rows(arrow_schema(COLUMNS[content] if columns is None else columns), {"directory": "d"})
    wanted = wanted or BatchFilter(only_control=content == "control")
    made: list[dict[str, Any]] = []
    source = Counted(data, reads)
    for found in scan(source, 0, len(data), Expectation(0), chunk_bytes, may_be_preallocated=may_be_preallocated):
        if not isinstance(found, Run) and found.is_preallocated:
            assert found.position + found.size == len(data)
        elif not isinstance(found, Run):
            made += damage_row(found, rows).to_pylist()
        elif content == "batches":
            made += batch_rows(wanted.select(found), rows).to_pylist()
        else:
            run = wanted.select(found)
            make_rows = control_rows if content == "control" else record_rows
            tables = make_rows(run, rows, wanted)
            made += [row for table in tables for row in table.to_pylist()]
    return Table(made)


def truth(log: Iterable[bytes]) -> list[dict[str, Any]]:
    """The records as storage.batches.batch decodes them, one batch after the other."""
    rows = []
    position = 0
    for batch in log:
        [(_, header)] = iter_headers(batch)
        for record in decode_records(batch, 0, header):
            fields = attrs.asdict(record, recurse=False)
            epoch = fields.pop("leader_epoch")
            rows.append(
                {
                    "position": position,
                    "batch_offset": header.base_offset,
                    "epoch": epoch,
                    "control": header.is_control,
                    **fields,
                }
            )
        position += len(batch)
    return rows


def as_truth(row: dict[str, Any]) -> dict[str, Any]:
    """A row as `truth` has it."""
    timestamp = row["timestamp"]
    return {
        "position": row["position"],
        "batch_offset": row["batch_offset"],
        "epoch": row["epoch"],
        "control": row["control"],
        "offset": row["offset"],
        "timestamp_ms": None if timestamp is None else round(timestamp.timestamp() * 1000),
        "key": row["key"],
        "value": row["value"],
        "headers": tuple((header["key"], header["value"]) for header in row["headers"]),
    }
