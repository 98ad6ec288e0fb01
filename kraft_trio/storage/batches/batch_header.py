"""The header of a record batch, format version 2: read without touching the records, patched without re-encoding.

The first 12 bytes (base offset, length) frame the batch.  The CRC-32C covers everything from the attributes on, so the
leader can set the base offset and the leader epoch of an encoded batch.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.disk.disk import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and maximum timestamp, producer
id, producer epoch, base sequence, record count."""

HEADER_BYTES = 61
FRAME_BYTES = 12
"""Base offset and length, which the length itself does not count."""
CRC_START = 21
"""Where the bytes under the CRC begin: the attributes."""
MAGIC_POSITION = 16
MAGIC = 2
NO_PRODUCER_ID = -1

CONTROL_ATTRIBUTE = 0x20
TRANSACTIONAL_ATTRIBUTE = 0x10
LOG_APPEND_TIME_ATTRIBUTE = 0x08
COMPRESSION_ATTRIBUTES = 0x07

_FRAME = struct.Struct(">qi")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_POSITION = 12
_CRC = struct.Struct(">I")
CRC_POSITION = 17


class Compression(enum.IntEnum):
    """The codec of a batch's records, as its attributes number it."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_COMPRESSIONS = tuple(Compression)


class BatchHeader(NamedTuple):
    """The header of one batch.  Offsets are inclusive except `next_offset`."""

    base_offset: int
    size_in_bytes: int
    """The whole batch, the 12 bytes of framing included."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch (exclusive end)."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_ATTRIBUTE != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_ATTRIBUTE != 0

    @property
    def has_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_ATTRIBUTE != 0

    @property
    def compression(self) -> Compression:
        """The codec.  Raises ProtocolError for a number that no codec has."""
        number = self.attributes & COMPRESSION_ATTRIBUTES
        if number > Compression.ZSTD:
            raise ProtocolError(f"batch at offset {self.base_offset}: compression {number} is not one of 0 to 4")
        return _COMPRESSIONS[number]


def peek_header(buffer: Buffer, position: int = 0, *, named_position: int | None = None) -> BatchHeader:
    """Read the header of the batch at `position`; the records need not be there.

    Raises ProtocolError if fewer than 61 bytes are left, for a magic other than 2, and for a length, record count or
    offset delta that no batch can have.  The error names `named_position`, or else `position`.
    """
    left = len(buffer) - position
    named = position if named_position is None else named_position
    if left < HEADER_BYTES:
        if left > MAGIC_POSITION:
            _check_magic(buffer[position + MAGIC_POSITION], named)
        raise ProtocolError(f"batch at position {named}: {max(0, left)} bytes are left, a header has {HEADER_BYTES}")
    base_offset, length, *rest = HEADER.unpack_from(buffer, position)
    header = BatchHeader(base_offset, length + FRAME_BYTES, *rest)
    _check_magic(header.magic, named)
    if header.size_in_bytes < HEADER_BYTES:
        raise ProtocolError(
            f"batch at position {named}: length {length}, a batch has {HEADER_BYTES - FRAME_BYTES} or more"
        )
    if base_offset < 0 or header.last_offset_delta < 0 or header.record_count < 0:
        raise ProtocolError(
            f"batch at position {named}: base offset {base_offset}, last offset delta {header.last_offset_delta}, "
            f"{header.record_count} records; none of them may be negative"
        )
    return header


def _check_magic(magic: int, position: int) -> None:
    if magic != MAGIC:
        raise ProtocolError(f"batch at position {position}: magic {magic}, expected {MAGIC}")


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise ProtocolError unless the whole batch is in the buffer and its CRC is right."""
    left = len(buffer) - position
    if left < header.size_in_bytes:
        raise ProtocolError(
            f"batch at offset {header.base_offset}: {left} bytes are left, it has {header.size_in_bytes}"
        )
    with memoryview(buffer) as view, view[position + CRC_START : position + header.size_in_bytes] as covered:
        crc = crc32c(covered)
    if crc != header.crc:
        raise ProtocolError(
            f"batch at offset {header.base_offset}: CRC is {crc:#010x}, its header says {header.crc:#010x}"
        )


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of each batch in the buffer.

    Raises ProtocolError at the first that is cut off or has a wrong header.  CRCs are not checked.
    """
    position = 0
    while position < len(buffer):
        header = peek_header(buffer, position)
        if len(buffer) - position < header.size_in_bytes:
            raise ProtocolError(
                f"batch at position {position}: {len(buffer) - position} bytes are left, it has {header.size_in_bytes}"
            )
        yield position, header
        position += header.size_in_bytes


def whole_batches_size(buffer: Buffer) -> int:
    """How many bytes at the start of the buffer are whole batches; what follows is the cut part of one more.

    Raises ProtocolError for a length that no batch can have.
    """
    position = 0
    end = len(buffer)
    while end - position >= FRAME_BYTES:
        _, length = _FRAME.unpack_from(buffer, position)
        if length < HEADER_BYTES - FRAME_BYTES:
            raise ProtocolError(
                f"batch at position {position}: length {length}, a batch has {HEADER_BYTES - FRAME_BYTES} or more"
            )
        if end - position < length + FRAME_BYTES:
            break
        position += length + FRAME_BYTES
    return position


def patch_base_offset_and_epoch(buffer: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set the two fields that the leader chooses when it appends a batch; the CRC covers neither."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def patch_crc(buffer: bytearray, position: int = 0) -> None:
    """Compute the CRC of the batch that begins at `position` and ends with the buffer."""
    with memoryview(buffer) as view, view[position + CRC_START :] as covered:
        crc = crc32c(covered)
    set_crc(buffer, crc, position)


def set_crc(buffer: bytearray, crc: int, position: int = 0) -> None:
    """Set the CRC of the batch that begins at `position`."""
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)
