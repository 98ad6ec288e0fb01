"""Zigzag variable-length integers, as records use them for lengths and deltas."""

from __future__ import annotations

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.disk.disk import Buffer

_MAX_VARINT_BYTES = 5
_MAX_VARLONG_BYTES = 10


def _encode(value: int) -> bytes:
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


_SMALL = tuple(_encode(value) for value in range(8192))
"""The two-byte ones and shorter: nearly every length and delta there is."""


def encode_varint(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < 8192 else _encode(value)


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The length, count or offset delta at `position`, and the position after it.

    Raises ProtocolError where the buffer ends within it, and for one longer than 5 bytes, which Kafka cannot read.
    """
    return _decode(buffer, position, _MAX_VARINT_BYTES)


def decode_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """The timestamp delta at `position`, and the position after it.

    Raises ProtocolError where the buffer ends within it, and for one of more than 10 bytes or 64 bits.
    """
    value, after = _decode(buffer, position, _MAX_VARLONG_BYTES)
    if not -(2**63) <= value < 2**63:
        raise ProtocolError(f"variable-length integer at position {position}: more than 64 bits")
    return value, after


def _decode(buffer: Buffer, position: int, max_bytes: int) -> tuple[int, int]:
    zigzag = shift = 0
    try:
        while True:
            byte = buffer[position]
            position += 1
            zigzag |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (zigzag >> 1) ^ -(zigzag & 1), position
            shift += 7
            if shift == 7 * max_bytes:
                raise ProtocolError(
                    f"variable-length integer before position {position}: longer than {max_bytes} bytes"
                )
    except IndexError:
        raise ProtocolError(f"variable-length integer at the end, position {position}: cut") from None
