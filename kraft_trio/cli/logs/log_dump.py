"""Reads a `.log` or `.checkpoint` file as plain values: one per batch, and one for a damaged end.

The names are those of kafka-dump-log.  The file is mapped instead of loaded, because a segment may have a gigabyte.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import directory_id_to_text
from kraft_trio.storage.batches.batch import BatchHeader, Record, check_crc, decode_records, peek_header
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.batches.control_records import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
    control_record_type,
    decode_control_record,
)
from kraft_trio.storage.disk.disk import DiskFile
from kraft_trio.storage.disk.partition_files import LOG, offsets_of
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.segments.preallocation import MAX_PREALLOCATE_BYTES, is_preallocated
from kraft_trio.wire.metadata_frame import decode_metadata_frame

_END_MARKERS = {0: "ABORT", 1: "COMMIT"}
_END_MARKER = struct.Struct(">hi")
_SEQUENCES = 2**31


@attrs.frozen
class DumpedRecord:
    """One record.  If `control` or `metadata` is set, it describes the record; otherwise the raw key and value do."""

    record: Record
    sequence: int
    control: tuple[str, dict[str, Any]] | None = None
    """The control record's name and fields."""
    metadata: dict[str, Any] | None = None
    """The type, version and fields of one of Kafka's metadata records, as kafka-dump-log prints them.

    If they cannot be decoded, `data` has the message in hexadecimal digits and `undecodable` the reason.
    """


@attrs.frozen
class DumpedBatch:
    """One batch, `position` bytes into its file.  If `problem` is set, `records` is empty."""

    position: int
    header: BatchHeader
    is_valid: bool
    records: tuple[DumpedRecord, ...] = ()
    problem: str | None = None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; -1 unless an idempotent producer wrote the batch."""
        return _sequence(self.header, self.header.last_offset_delta)


@attrs.frozen
class Damage:
    """The rest of a file from `position` on, which is not a batch."""

    position: int
    invalid_bytes: int
    problem: str
    header: bytes = b""
    """The bytes that were to be a header."""


@attrs.frozen
class Preallocated:
    """The zeros from `position` to the end of a log's last segment, where the node appends next."""

    position: int
    size_in_bytes: int


DumpedItem = DumpedBatch | Damage | Preallocated


def dump_file(path: str, *, metadata_frames: bool = False) -> Iterator[DumpedItem]:
    """Yield the batches of a file in order.  With `metadata_frames`, decode values as Kafka's metadata records.

    A complete batch with a bad CRC or bad records carries its problem, and the dump continues after it.  Anything that
    is not a batch ends the dump.  Raises OSError when the file cannot be read.
    """
    position: int | None = 0
    read_before: int | None = None
    while position is not None:
        opened: DiskFile = RealDisk().open_to_read(path)
        with closing(opened) as file, file.view() as buffer:
            position = yield from _dump_opened(path, file, buffer, position, read_before, metadata_frames)
            read_before = position


def _dump_opened(
    path: str, file: DiskFile, buffer: memoryview, position: int, read_before: int | None, metadata_frames: bool
) -> Generator[DumpedItem, None, int | None]:
    """Returns where to go on after opening the file again: its node runs, and has written more or cut the zeros.

    A batch with a wrong CRC may be half written, so it is read again, unless it was `read_before`.
    """
    for item in _dump_buffer(file, buffer, position, metadata_frames):
        if isinstance(item, Damage):
            ends_the_log = _is_preallocated(file, item.position) and _may_be_preallocated(path)
            if os.path.getsize(path) != len(buffer) or file.read_at(item.position, HEADER_BYTES) != item.header:
                return item.position
            if ends_the_log:
                yield Preallocated(item.position, item.invalid_bytes)
                return None
        elif isinstance(item, DumpedBatch) and not item.is_valid and item.position != read_before:
            return item.position
        yield item
    return None


def _is_preallocated(file: DiskFile, position: int) -> bool:
    """What is mapped may have been cut."""
    return is_preallocated(memoryview(file.read_at(position, MAX_PREALLOCATE_BYTES + 1)), 0)


def _may_be_preallocated(path: str) -> bool:
    """Whether it is a segment, and no later one is beside it."""
    directory, name = os.path.split(path)
    if not name.endswith(LOG):
        return False
    segments = offsets_of(os.listdir(directory or os.curdir), LOG)
    return not offsets_of([name], LOG) or offsets_of([name], LOG) == segments[-1:]


def _dump_buffer(
    file: DiskFile, buffer: memoryview, position: int, metadata_frames: bool
) -> Iterator[DumpedBatch | Damage]:
    while position < len(buffer):
        left = len(buffer) - position
        data = file.read_at(position, HEADER_BYTES)
        try:
            header = peek_header(data, named_position=position)
        except ProtocolError as error:
            yield Damage(position, left, str(error), data)
            return
        if header.size_in_bytes > left:
            problem = f"batch at position {position}: {left} bytes are left, it has {header.size_in_bytes}"
            yield Damage(position, left, problem, data)
            return
        file.ensure_readable(position, header.size_in_bytes)
        yield _dump_batch(buffer, position, header, metadata_frames)
        position += header.size_in_bytes


def _dump_batch(buffer: memoryview, position: int, header: BatchHeader, metadata_frames: bool) -> DumpedBatch:
    try:
        check_crc(buffer, position, header)
    except ProtocolError as error:
        return DumpedBatch(position, header, is_valid=False, problem=str(error))
    try:
        records = decode_records(buffer, position, header)
        dumped = tuple(_dump_record(header, record, metadata_frames) for record in records)
    except ProtocolError as error:
        return DumpedBatch(position, header, is_valid=True, problem=str(error))
    return DumpedBatch(position, header, is_valid=True, records=dumped)


def _dump_record(header: BatchHeader, record: Record, metadata_frames: bool) -> DumpedRecord:
    sequence = _sequence(header, record.offset - header.base_offset)
    if header.is_control:
        return DumpedRecord(record, sequence, control=_control(record))
    if metadata_frames and record.value is not None:
        try:
            frame = decode_metadata_frame(record.value)
        except ProtocolError:
            return DumpedRecord(record, sequence)
        fields: dict[str, Any] = {"type": frame.name, "version": frame.version}
        try:
            fields["data"] = frame.fields()
        except ProtocolError as error:
            fields |= {"data": frame.message.hex(), "undecodable": str(error)}
        return DumpedRecord(record, sequence, metadata=fields)
    return DumpedRecord(record, sequence)


def _sequence(header: BatchHeader, offset_delta: int) -> int:
    return -1 if header.base_sequence < 0 else (header.base_sequence + offset_delta) % _SEQUENCES


def _control(record: Record) -> tuple[str, dict[str, Any]]:
    control_type = control_record_type(record.key)
    if control_type in _END_MARKERS:
        value = record.value or b""
        if len(value) < _END_MARKER.size:
            raise ProtocolError(
                f"end marker at offset {record.offset}: {len(value)} bytes, expected {_END_MARKER.size}"
            )
        version, coordinator_epoch = _END_MARKER.unpack_from(value)
        marker = _END_MARKERS[control_type]
        return "EndTxnMarker", {"version": version, "type": marker, "coordinatorEpoch": coordinator_epoch}
    decoded = decode_control_record(record.key, record.value)
    if decoded is None:
        return f"UNKNOWN({control_type})", {"data": (record.value or b"").hex()}
    return control_fields(decoded)


def control_fields(record: ControlRecord) -> tuple[str, dict[str, Any]]:
    """The name and the fields of a control record, as in Kafka's schemas."""
    fields: dict[str, Any] = {"version": 0}
    match record:
        case LeaderChange(leader_id, voter_ids, granting_voter_ids):
            fields["leaderId"] = leader_id
            fields["voters"] = [{"voterId": id} for id in voter_ids]
            fields["grantingVoters"] = [{"voterId": id} for id in granting_voter_ids]
            return "LeaderChange", fields
        case SnapshotHeader(timestamp_ms):
            return "SnapshotHeader", {**fields, "lastContainedLogTimestamp": timestamp_ms}
        case SnapshotFooter():
            return "SnapshotFooter", fields
        case KRaftVersion(version):
            return "KRaftVersion", {**fields, "kRaftVersion": version}
        case VotersRecord(voters, target):
            fields["voters"] = [
                {
                    "voterId": voter.id,
                    "voterDirectoryId": directory_id_to_text(voter.key.directory_id),
                    "endpoints": [
                        {"name": name, "host": endpoint.host, "port": endpoint.port}
                        for name, endpoint in voter.endpoints
                    ],
                    "kRaftVersionFeature": {
                        "minSupportedVersion": voter.kraft_versions.minimum,
                        "maxSupportedVersion": voter.kraft_versions.maximum,
                    },
                }
                for voter in voters
            ]
            if target:
                # A field of our own, which readers of Kafka's schemas do not have.
                fields["targetVoters"] = [
                    {"voterId": key.id, "voterDirectoryId": directory_id_to_text(key.directory_id)} for key in target
                ]
            return "KRaftVoters", fields
