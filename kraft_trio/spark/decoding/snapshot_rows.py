"""`content=snapshots`: one row per snapshot, which is read completely."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.byte_source import ByteSource
from kraft_trio.spark.decoding.control_rows import target_value, voters_value
from kraft_trio.spark.decoding.numbered_records import sized_records
from kraft_trio.spark.decoding.rows import Rows, microseconds
from kraft_trio.storage.snapshots.snapshot_reader import SnapshotBatch, SnapshotCount, SnapshotSummary, read_batches

_PART_BYTES = 1024 * 1024
_START_OF_RECORD = struct.Struct(">?i")
_SIZE = struct.Struct(">i")


@attrs.frozen
class _Sized:
    """See `storage.snapshots.snapshot_reader.SnapshotSource`."""

    _source: ByteSource

    def size(self) -> int:
        return self._source.size

    def read_at(self, position: int, size: int) -> bytes:
        return self._source.read_at(position, size)


def snapshot_row(source: ByteSource, snapshot_id: OffsetAndEpoch, rows: Rows) -> pa.RecordBatch:
    """The file's row.  If anything is wrong, `error` says so and the contents are null.  Raises OSError."""
    digest, content = hashlib.sha256(), hashlib.sha256()
    count = SnapshotCount()
    hashed = 0
    error = None
    summary: SnapshotSummary | None = None
    try:
        for batch in read_batches(_Sized(source), snapshot_id.epoch):
            count.add(batch)
            digest.update(batch.data)
            hashed += len(batch.data)
            for part in _contents(batch):
                content.update(part)
        summary = count.summary(snapshot_id)
    except ProtocolError as problem:
        error = f"{source.path}: {problem}"
    while hashed < source.size:
        part = source.read_at(hashed, _PART_BYTES)
        if not part:
            break
        digest.update(part)
        hashed += len(part)
    values: dict[str, Any] = {
        "size": source.size,
        "sha256": digest.hexdigest(),
        "valid": error is None,
        "error": error,
    }
    if summary is not None:
        state = summary.control_state
        timestamp, problem_of_time = microseconds(state.last_contained_log_timestamp_ms)
        values |= {
            "content_sha256": content.hexdigest(),
            "record_count": summary.record_count,
            "kraft_version": state.kraft_version,
            "voters": None if state.voters is None else voters_value(state.voters),
            "target": None if state.voters is None else target_value(state.target_voters),
            "last_contained_timestamp": timestamp,
            "error": problem_of_time,
        }
    return rows.one(**values)


def _contents(batch: SnapshotBatch) -> Iterator[bytes]:
    """An unambiguous form of the records' contents, for hashing, in parts.  Raises ProtocolError."""
    part = bytearray()
    try:
        for record, _ in sized_records(batch.data, 0, batch.header):
            part += _START_OF_RECORD.pack(batch.header.is_control, len(record.headers))
            part += b"".join((*_sized(record.key), *_sized(record.value)))
            for name, value in record.headers:
                part += b"".join((*_sized(name.encode()), *_sized(value)))
            if len(part) >= _PART_BYTES:
                yield bytes(part)
                part.clear()
        yield bytes(part)
    except ProtocolError as error:
        raise ProtocolError(f"position {batch.position}: {error}") from error


def _sized(data: bytes | None) -> tuple[bytes, bytes]:
    return (_SIZE.pack(-1), b"") if data is None else (_SIZE.pack(len(data)), data)
