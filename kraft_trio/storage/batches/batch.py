"""Record batches, format version 2: encoding and decoding of the records, control batches included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
from crc32c import crc32c

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch_header import (
    COMPRESSION_ATTRIBUTES,
    CONTROL_ATTRIBUTE,
    CRC_POSITION,
    CRC_START,
    FRAME_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    Compression,
    check_crc,
    iter_headers,
    patch_base_offset_and_epoch,
    peek_header,
    whole_batches_size,
)
from kraft_trio.storage.batches.compression import compress, decompress
from kraft_trio.storage.batches.control_records import ControlRecord, decode_control_record, encode_control_record
from kraft_trio.storage.batches.record_limits import MAX_BATCH_HEADERS, MAX_CONTROL_BYTES, MAX_READ_HEADERS, MAX_RECORDS
from kraft_trio.storage.batches.varint import decode_varint, decode_varlong, encode_varint
from kraft_trio.storage.disk.disk import Buffer

__all__ = [
    "BatchHeader",
    "Compression",
    "NewRecord",
    "Record",
    "check_client_batch",
    "check_crc",
    "decode_control_batch",
    "decode_records",
    "encode_batch",
    "encode_control_batch",
    "iter_headers",
    "patch_base_offset_and_epoch",
    "peek_header",
    "whole_batches_size",
]

DEFAULT_MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024

_PLAIN_STARTS = tuple(b"\x00\x00" + encode_varint(delta) + b"\x01" for delta in range(4096))
"""The first bytes, behind its length, of a record with the batch's time and a null key, by offset delta."""

RecordHeaders = tuple[tuple[str, bytes | None], ...]


@attrs.frozen
class NewRecord:
    """A record to be encoded; its offset comes from its place in the batch.  `timestamp_ms` None: the batch's."""

    value: bytes | None
    key: bytes | None = None
    headers: RecordHeaders = ()
    timestamp_ms: int | None = None


@attrs.frozen
class Record:
    """A record of the log; `timestamp_ms` is milliseconds since 1970."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()
    leader_epoch: int = attrs.field(default=-1, eq=False, repr=False)
    """The epoch of its batch."""


def encode_batch(
    records: Sequence[NewRecord],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    control: bool = False,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> bytes:
    """One batch of one record or more.

    Raises ValueError for no records: a batch without them would occupy no offset; TypeError for a key or value that is
    not bytes.
    """
    if not records:
        raise ValueError("records: empty, a batch has at least one")
    parts, base_timestamp_ms, max_timestamp_ms = encode_records_apart(records, timestamp_ms)
    if compression is not Compression.NONE:
        parts = [compress(compression, b"".join(parts))]
    records_bytes = sum(map(len, parts))
    attributes = compression | (CONTROL_ATTRIBUTE if control else 0) | (0x10 if transactional else 0)
    header = HEADER.pack(
        base_offset,
        HEADER_BYTES - FRAME_BYTES + records_bytes,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        len(records) - 1,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    body = b"".join(parts)
    if len(body) != records_bytes:
        raise TypeError(
            f"records: {len(body)} bytes, expected {records_bytes} from their lengths: a key or value is not bytes"
        )
    covered = header[CRC_START:]
    crc = crc32c(body, crc32c(covered))
    return b"".join((header[:CRC_POSITION], crc.to_bytes(4, "big"), covered, body))


def encode_records_apart(records: Sequence[NewRecord], timestamp_ms: int) -> tuple[list[bytes], int, int]:
    """The parts of the encoded records in order, and the base and the maximum timestamp of their batch.

    A value is a part of its own.
    """
    base_timestamp_ms = records[0].timestamp_ms if records[0].timestamp_ms is not None else timestamp_ms
    max_timestamp_ms = base_timestamp_ms
    parts: list[bytes] = []
    plain_starts = _PLAIN_STARTS if base_timestamp_ms == timestamp_ms else ()
    for offset_delta, record in enumerate(records):
        at_ms = record.timestamp_ms
        if (
            at_ms is None
            and record.key is None
            and record.value is not None
            and not record.headers
            and offset_delta < len(plain_starts)
        ):
            start, size = plain_starts[offset_delta], encode_varint(len(record.value))
            parts += (encode_varint(len(start) + len(size) + len(record.value) + 1), start, size, record.value, b"\x00")
            continue
        if at_ms is None:
            at_ms = timestamp_ms
        if at_ms != max_timestamp_ms:
            max_timestamp_ms = max(max_timestamp_ms, at_ms)
        key, value = record.key, record.value
        start = b"\x00" + encode_varint(at_ms - base_timestamp_ms) + encode_varint(offset_delta)
        start += b"\x01" if key is None else encode_varint(len(key)) + key
        start += b"\x01" if value is None else encode_varint(len(value))
        end = _encode_headers(record.headers) if record.headers else b"\x00"
        if value is None:
            parts += (encode_varint(len(start) + len(end)), start, end)
        else:
            parts += (encode_varint(len(start) + len(value) + len(end)), start, value, end)
    return parts, base_timestamp_ms, max_timestamp_ms


def encode_control_batch(
    records: Iterable[ControlRecord], *, timestamp_ms: int, base_offset: int = 0, leader_epoch: int = 0
) -> bytes:
    """One control batch (KIP-595 "Control records"): a key that tells the type, a value of that type."""
    pairs = [encode_control_record(record) for record in records]
    return encode_batch(
        [NewRecord(key=key, value=value) for key, value in pairs],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        control=True,
    )


def _encode_headers(headers: RecordHeaders) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += (encode_varint(-1),) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)


def check_client_batch(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise ProtocolError unless a client may produce this batch: CRC and record count right, no control."""
    check_crc(buffer, position, header)
    if header.is_control:
        raise ProtocolError(f"batch at position {position}: a control batch, which clients do not write")
    if header.record_count != header.last_offset_delta + 1:
        raise ProtocolError(
            f"batch at position {position}: {header.record_count} records with last offset delta "
            f"{header.last_offset_delta}, expected {header.last_offset_delta + 1} records"
        )
    header.compression  # noqa: B018 raises for a codec that does not exist


def decode_records(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Decode the records of the batch at `position`.  The caller has checked its CRC.  For many see `record_chunks`.

    Raises ProtocolError if the batch is incomplete or malformed, if it has more records than MAX_RECORDS or more
    headers than MAX_BATCH_HEADERS, or if the decompressed records take more
    than `max_decompressed_bytes`.
    """
    data, at = record_bytes(buffer, position, header, max_decompressed_bytes)
    if header.record_count > MAX_RECORDS:
        raise ProtocolError(
            f"batch at offset {header.base_offset}: {header.record_count} records, at most {MAX_RECORDS} allowed"
        )
    records = []
    header_count = 0
    for _ in range(header.record_count):
        record, at = decode_record(data, at, header)
        records.append(record)
        if record.headers:
            header_count += len(record.headers)
            if header_count > MAX_BATCH_HEADERS:
                raise ProtocolError(
                    f"batch at offset {header.base_offset}: more than {MAX_BATCH_HEADERS} record headers"
                )
    if at != len(data):
        raise ProtocolError(f"batch at offset {header.base_offset}: {len(data) - at} bytes follow its last record")
    return records


def record_bytes(buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int) -> tuple[bytes, int]:
    """Return bytes that end with the batch's decompressed records, and the position of the first record in them.

    Raises ProtocolError if the batch is incomplete, if its records take more than `max_decompressed_bytes`, or if there
    are too few bytes for the record count.
    """
    end = position + header.size_in_bytes
    if end > len(buffer):
        raise ProtocolError(
            f"batch at offset {header.base_offset}: cut, {len(buffer) - position} of its bytes are left"
        )
    start = position + HEADER_BYTES
    if header.attributes & COMPRESSION_ATTRIBUTES:
        data = decompress(header.compression, bytes(buffer[start:end]), max_decompressed_bytes)
        start = 0
    elif isinstance(buffer, bytes) and end == len(buffer):
        data = buffer
    else:
        data = bytes(buffer[start:end])
        start = 0
    # A record takes 7 bytes or more: checked before anything is made in proportion to the count.
    if header.record_count * 7 > len(data) - start:
        raise ProtocolError(
            f"batch at offset {header.base_offset}: {header.record_count} records cannot be in "
            f"{len(data) - start} bytes"
        )
    return data, start


def decode_record(
    data: bytes, position: int, header: BatchHeader, max_headers: int = MAX_READ_HEADERS
) -> tuple[Record, int]:
    """Decode the record at `position` of the result of `record_bytes`; return it and the position after it.

    Raises ProtocolError if it is malformed or has more headers than `max_headers`.
    """
    length, position = decode_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise ProtocolError(
            f"batch at offset {header.base_offset}: a record of {length} bytes, {len(data) - position} are left"
        )
    timestamp_delta, at = decode_varlong(data, position + 1)
    offset_delta, at = decode_varint(data, at)
    key, at = _decode_bytes(data, at, end)
    value, at = _decode_bytes(data, at, end)
    header_count, at = decode_varint(data, at)
    headers: RecordHeaders = ()
    if header_count:
        headers, at = _decode_headers(data, at, end, header_count, max_headers)
    if at != end:
        raise ProtocolError(
            f"batch at offset {header.base_offset}: a record of {length} bytes ends {end - at} bytes off"
        )
    timestamp_ms = header.max_timestamp_ms if header.has_log_append_time else header.base_timestamp_ms + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp_ms, key, value, headers, header.leader_epoch), end


def _decode_headers(data: bytes, position: int, end: int, count: int, max_headers: int) -> tuple[RecordHeaders, int]:
    if not 0 <= count <= (end - position) // 2:
        raise ProtocolError(f"record headers: {count} of them cannot be in {end - position} bytes")
    if count > max_headers:
        raise ProtocolError(f"record headers: {count} of them, at most {max_headers} allowed")
    headers = []
    for _ in range(count):
        name, position = _decode_bytes(data, position, end)
        value, position = _decode_bytes(data, position, end)
        if name is None:
            raise ProtocolError("record header: its name is null")
        try:
            headers.append((str(name, "utf-8"), value))
        except UnicodeDecodeError:
            raise ProtocolError(f"record header: name {bytes(name)!r} is not UTF-8") from None
    return tuple(headers), position


def _decode_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length == -1:
        return None, position
    if length < 0 or position + length > end:
        raise ProtocolError(f"record field of {length} bytes at position {position}: {end - position} are left")
    return data[position : position + length], position + length


def decode_control_batch(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[tuple[int, ControlRecord]]:
    """Yield the offset and content of each control record in a control batch.  Skips unknown types.

    Raises ProtocolError if a record is malformed, or if the records take more than MAX_CONTROL_BYTES when decompressed.
    """
    for record in decode_records(buffer, position, header, MAX_CONTROL_BYTES):
        if record.key is None or record.value is None:
            raise ProtocolError(f"control record at offset {record.offset}: without key or value")
        decoded = decode_control_record(record.key, record.value)
        if decoded is not None:
            yield record.offset, decoded
