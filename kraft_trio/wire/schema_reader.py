"""Reads a message from bytes, by what its class declares.

A peer's lengths and counts are checked before they are used: against the rest of the frame, and, for array elements and
tagged fields, against a limit for the whole frame.  That limit matters because an element costs tens of microseconds
until it is answered, however few bytes it takes.  A message that breaks a rule raises ProtocolError, naming the field.

The readers are generated, one function for each message and version (`reader_source`).  To print one, use
`inspect.getsource(api.reader(…))`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

from kraft_trio.errors import ProtocolError
from kraft_trio.wire.error_codes import ERROR_CODES, ErrorCode
from kraft_trio.wire.reader_source import compile_reader
from kraft_trio.wire.schema import Structure

REQUEST_ELEMENTS: Final = 2000
"""The most array elements and tagged fields in one request.  Clients name a few hundred topics at most."""
RESPONSE_ELEMENTS: Final = 10_000
"""The most array elements and tagged fields in one response.  DescribeQuorum lists every observer."""


Reader: TypeAlias = Callable[[bytes | bytearray, int, int], Any]
"""`read(frame, position, elements_left)` reads the message that fills the rest of the frame.  Raises ProtocolError."""


def message_reader(structure: Structure, title: str) -> Reader:
    """Compile the reader of a message; refusals and tracebacks name the `title`."""
    return compile_reader(structure, title, _NAMES)


def _long_varint(data: bytes | bytearray, start: int) -> tuple[int, int]:
    """The varint at `start`, of 32 bits at most, and the position after it.  Each byte has seven bits, lowest first."""
    value = 0
    position = start
    try:
        for shift in (0, 7, 14, 21, 28):
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
    except IndexError:
        _refuse_cut_varint(start)
    if byte >= 0x80 or value > 0xFFFFFFFF:
        raise ProtocolError(f"varint at byte {start}: more than 32 bits")
    return value, position


def _varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    if position >= len(data):
        _refuse_cut_varint(position)
    byte = data[position]
    return (byte, position + 1) if byte < 0x80 else _long_varint(data, position)


def skip_tagged_fields(data: bytes | bytearray, position: int, elements_left: int) -> tuple[int, int]:
    """Skip a section of unknown tagged fields (KIP-482).  Returns the position after it and the elements left."""
    count, position = _varint(data, position)
    if not count:
        return position, elements_left
    if count * 2 > len(data) - position:
        _refuse_count("tagged fields", count, len(data) - position)
    if count > elements_left:
        _refuse_elements("tagged fields")
    previous_tag = -1
    for _ in range(count):
        tag, position = _varint(data, position)
        size, position = _varint(data, position)
        if tag <= previous_tag:
            _refuse_tag(tag, previous_tag)
        previous_tag = tag
        if size > len(data) - position:
            refuse_size(f"tagged field {tag}", size, len(data) - position)
        position += size
    return position, elements_left - count


@lru_cache(maxsize=1024)
def _uuid_of(raw: bytes) -> UUID:
    return UUID(bytes=raw)


def _refuse_cut_varint(position: int) -> NoReturn:
    raise ProtocolError(f"the frame ends within a varint at byte {position}") from None


def _refuse_cut_field(structure: str) -> NoReturn:
    raise ProtocolError(f"{structure}: the frame ends within a field of fixed size") from None


def _refuse_rest(structure: str, left: int) -> NoReturn:
    raise ProtocolError(f"{structure}: {left} bytes follow the message in its frame")


def _refuse_length(name: str, length: int, lowest: int) -> NoReturn:
    raise ProtocolError(f"{name}: length {length}; {lowest} or more was expected" + (", -1 for null" * -lowest))


def refuse_size(name: str, size: int, left: int) -> NoReturn:
    raise ProtocolError(f"{name}: length {size}, but {left} bytes are left in the frame")


def refuse_text(name: str, raw: bytes | bytearray) -> NoReturn:
    raise ProtocolError(f"{name}: {bytes(raw[:32])!r} is not UTF-8") from None


def _refuse_count(name: str, count: int, left: int) -> NoReturn:
    raise ProtocolError(f"{name}: {count} elements, but {left} bytes are left in the frame")


def _refuse_elements(name: str) -> NoReturn:
    raise ProtocolError(
        f"{name}: too many elements in one frame, at most {REQUEST_ELEMENTS} are allowed in a request and "
        f"{RESPONSE_ELEMENTS} in a response"
    )


def _refuse_not_one(name: str) -> NoReturn:
    raise ProtocolError(f"{name}: exactly one topic with one partition was expected")


def _refuse_tag(tag: int, previous: int) -> NoReturn:
    raise ProtocolError(f"tagged field {tag} after {previous}: tags must ascend")


def _refuse_tag_size(name: str, tag: int, size: int, excess: int) -> NoReturn:
    raise ProtocolError(f"{name} (tag {tag}): {size} bytes declared, {size + excess} taken")


_NAMES: Final = {
    "StructError": struct.error,
    "unpack_from": struct.unpack_from,
    "error_codes": ERROR_CODES,
    "unknown_error": ErrorCode.unknown_server_error,
    "uuid_of": _uuid_of,
    "long_varint": _long_varint,
    "skip_tagged_fields": skip_tagged_fields,
    "refuse_cut_varint": _refuse_cut_varint,
    "refuse_cut_field": _refuse_cut_field,
    "refuse_rest": _refuse_rest,
    "refuse_length": _refuse_length,
    "refuse_size": refuse_size,
    "refuse_text": refuse_text,
    "refuse_count": _refuse_count,
    "refuse_elements": _refuse_elements,
    "refuse_not_one": _refuse_not_one,
    "refuse_tag": _refuse_tag,
    "refuse_tag_size": _refuse_tag_size,
}
"""The names that generated readers use."""
