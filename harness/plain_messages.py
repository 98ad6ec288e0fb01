"""Messages as dicts of the fields on the wire, for what the classes of messages cannot say, such as several topics.

Reads and writes by the structure of a message alone, without the code that `kraft_trio/wire` generates.  Structures are
dicts, arrays lists, error codes numbers.  A tagged field that is not sent is not in the dict.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias
from uuid import UUID

from kraft_trio.wire.fields import FORMATS
from kraft_trio.wire.schema import Field, Structure
from kraft_trio.wire.schema_writer import unsigned_varint

Plain: TypeAlias = dict[str, Any]


def write_plain(structure: Structure, fields: Plain) -> bytes:
    written = [_written(field, structure.flexible, fields[field.name]) for field in structure.fields]
    if structure.flexible:
        sent = [field for field in structure.tagged if field.name in fields]
        written.append(unsigned_varint(len(sent)))
        for field in sent:
            value = _written(field, True, fields[field.name])
            written += [unsigned_varint(field.tag or 0), unsigned_varint(len(value)), value]
    return b"".join(written)


def read_plain(structure: Structure, data: bytes) -> Plain:
    """The message must fill the data, and have no unknown tags."""
    reader = _Reader(data)
    fields = reader.structure(structure)
    assert reader.position == len(data)
    return fields


def _written(field: Field, flexible: bool, value: Any) -> bytes:
    if field.is_array:
        length = _length(field, flexible, -1 if value is None else len(value))
        return length + b"".join(_written(field.element, flexible, one) for one in value or ())
    if field.structure is not None:
        return write_plain(field.structure, value)
    if field.kind in FORMATS:
        return struct.pack(">" + FORMATS[field.kind], value.bytes if field.kind == "uuid" else value)
    raw = value.encode() if isinstance(value, str) else value
    return _length(field, flexible, -1 if raw is None else len(raw)) + (raw or b"")


def _length(field: Field, flexible: bool, length: int) -> bytes:
    return unsigned_varint(length + 1) if flexible else struct.pack(">" + _length_format(field), length)


def _length_format(field: Field) -> str:
    return "h" if field.kind == "string" and not field.is_array else "i"


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def structure(self, structure: Structure) -> Plain:
        fields = {field.name: self._value(field, structure.flexible) for field in structure.fields}
        if structure.flexible:
            tagged = {field.tag: field for field in structure.tagged}
            for _ in range(self._varint()):
                field = tagged[self._varint()]
                end = self._varint() + self.position
                fields[field.name] = self._value(field, True)
                assert self.position == end
        return fields

    def _value(self, field: Field, flexible: bool) -> Any:
        if field.is_array:
            length = self._length(field, flexible)
            return None if length < 0 else [self._value(field.element, flexible) for _ in range(length)]
        if field.structure is not None:
            return self.structure(field.structure)
        if field.kind in FORMATS:
            value = self._fixed(FORMATS[field.kind])
            return UUID(bytes=value) if field.kind == "uuid" else value
        length = self._length(field, flexible)
        if length < 0:
            return None
        self.position += length
        raw = self._data[self.position - length : self.position]
        return raw.decode() if field.kind == "string" else raw

    def _length(self, field: Field, flexible: bool) -> int:
        return self._varint() - 1 if flexible else int(self._fixed(_length_format(field)))

    def _fixed(self, format: str) -> Any:
        (value,) = struct.unpack_from(">" + format, self._data, self.position)
        self.position += struct.calcsize(">" + format)
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
