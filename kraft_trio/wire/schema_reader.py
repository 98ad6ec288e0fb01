"""Bytes into `Fields`, by a shape of `schema`.

Nothing that a peer declares is believed before it is checked: lengths and counts against what is left of the frame,
and the number of array elements and tagged fields in a frame against ELEMENTS_PER_FRAME, so that neither memory nor
time grows past a small multiple of the frame.  Whatever is wrong raises ProtocolError naming the field.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct, calcsize
from struct import error as StructError
from struct import unpack_from as struct_unpack_from
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

from kraft_trio.errors import ProtocolError
from kraft_trio.wire.error_codes import error_code_from_int
from kraft_trio.wire.schema import FIXED_FORMATS, EntityShape, Fields, FieldShape

ELEMENTS_PER_FRAME: Final = 100_000

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


class Cursor:
    """A position in one frame, and how many array elements and tagged fields it may still hold."""

    __slots__ = ("data", "elements_left", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.elements_left = ELEMENTS_PER_FRAME

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def unsigned_varint(self) -> int:
        """KIP-482: seven bits a byte, the lowest first, 32 bits at most."""
        position = self.position
        try:
            byte = self.data[position]
            if byte < 0x80:
                self.position = position + 1
                return byte
            return self._long_varint()
        except IndexError:
            raise ProtocolError(f"the frame ends within a varint at byte {position}") from None

    def _long_varint(self) -> int:
        value = 0
        for index, shift in enumerate((0, 7, 14, 21, 28)):
            byte = self.data[self.position + index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte >= 0x80 or value > 0xFFFFFFFF:
            raise ProtocolError(f"varint at byte {self.position}: more than 32 bits")
        self.position += index + 1
        return value

    def take(self, size: int, name: str) -> bytes:
        """The next `size` bytes, copied."""
        start = self.position
        end = start + size
        if size < 0 or end > len(self.data):
            raise ProtocolError(f"{name}: length {size}, but {len(self.data) - start} bytes are left in the frame")
        self.position = end
        return self.data[start:end]

    def count(self, count: int, element_size: int, name: str) -> None:
        """Check that `count` elements of at least `element_size` bytes can follow, and count them."""
        if count < 0 or count * element_size > len(self.data) - self.position:
            raise ProtocolError(f"{name}: {count} elements, but {self.remaining} bytes are left in the frame")
        self.elements_left -= count
        if self.elements_left < 0:
            raise ProtocolError(f"{name}: more than {ELEMENTS_PER_FRAME} elements in one frame")


EntityReader: TypeAlias = Callable[[Cursor], Fields]
_ValueReader: TypeAlias = Callable[[Cursor], Any]
_Step: TypeAlias = Callable[[Cursor, Fields], None]


def read_message(shape: EntityShape, cursor: Cursor) -> Fields:
    """Read one message that must fill the rest of the frame.  Raises ProtocolError."""
    try:
        fields = entity_reader(shape)(cursor)
    except StructError:
        raise ProtocolError(f"{shape.name}: the frame ends within a field of fixed size") from None
    if cursor.remaining:
        raise ProtocolError(f"{shape.name}: {cursor.remaining} bytes follow the message in its frame")
    return fields


@cache
def entity_reader(shape: EntityShape) -> EntityReader:
    """The compiled reader of a structure: neighbouring fields of fixed size are read in one step."""
    steps = _steps(shape)

    def read(cursor: Cursor) -> Fields:
        fields: Fields = {}
        for step in steps:
            step(cursor, fields)
        return fields

    return read


def _steps(shape: EntityShape) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    run: list[FieldShape] = []
    for field in shape.fields:
        if field.is_fixed:
            run.append(field)
            continue
        if run:
            steps.append(_run_step(run))
            run = []
        steps.append(_field_step(field.name, _value_reader(field, shape.flexible)))
    if run:
        steps.append(_run_step(run))
    if shape.flexible:
        steps.append(_tagged_step(shape))
    return tuple(steps)


def _field_step(name: str, read_value: _ValueReader) -> _Step:
    def step(cursor: Cursor, fields: Fields) -> None:
        fields[name] = read_value(cursor)

    return step


@lru_cache(maxsize=1024)
def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)


_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {"uuid": _uuid, "error_code": error_code_from_int}


def _run_step(run: list[FieldShape]) -> _Step:
    if len(run) == 1:
        return _field_step(run[0].name, _fixed_reader(run[0]))
    layout = Struct(">" + "".join(FIXED_FORMATS[field.kind] for field in run))
    unpack_from, size = layout.unpack_from, layout.size
    names = tuple(field.name for field in run)
    conversions = tuple((field.name, _CONVERSIONS[field.kind]) for field in run if field.kind in _CONVERSIONS)

    def step(cursor: Cursor, fields: Fields) -> None:
        position = cursor.position
        fields.update(zip(names, unpack_from(cursor.data, position), strict=False))
        cursor.position = position + size
        for name, convert in conversions:
            fields[name] = convert(fields[name])

    return step


def _value_reader(field: FieldShape, flexible: bool) -> _ValueReader:
    if field.is_array:
        return _array_reader(field, flexible)
    if field.entity is not None:
        return entity_reader(field.entity)
    if field.is_fixed:
        return _fixed_reader(field)
    return _bytes_reader(field, flexible)


def _fixed_reader(field: FieldShape) -> _ValueReader:
    layout = Struct(">" + FIXED_FORMATS[field.kind])
    convert = _CONVERSIONS.get(field.kind)

    def read(cursor: Cursor) -> Any:
        (value,) = layout.unpack_from(cursor.data, cursor.position)
        cursor.position += layout.size
        return value if convert is None else convert(value)

    return read


def _length_reader(field: FieldShape, flexible: bool) -> Callable[[Cursor], int]:
    """Reads the length before a string, byte string or array: -1 for null, which is refused where it may not be."""
    name, lowest = field.name, -1 if field.nullable else 0
    layout = _INT16 if field.kind == "string" and not field.is_array else _INT32

    def read_compact(cursor: Cursor) -> int:
        length = cursor.unsigned_varint() - 1
        return length if length >= lowest else refuse(length)

    def read_legacy(cursor: Cursor) -> int:
        (length,) = layout.unpack_from(cursor.data, cursor.position)
        cursor.position += layout.size
        return int(length) if length >= lowest else refuse(length)

    def refuse(length: int) -> NoReturn:
        raise ProtocolError(f"{name}: length {length}; {lowest} or more was expected" + (", -1 for null" * -lowest))

    return read_compact if flexible else read_legacy


def _bytes_reader(field: FieldShape, flexible: bool) -> _ValueReader:
    name = field.name
    read_length = _length_reader(field, flexible)
    is_text = field.kind == "string"

    def read(cursor: Cursor) -> str | bytes | None:
        length = read_length(cursor)
        if length < 0:
            return None
        raw = cursor.take(length, name)
        if not is_text:
            return raw
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ProtocolError(f"{name}: {raw[:32]!r} is not UTF-8") from None

    return read


def _array_reader(field: FieldShape, flexible: bool) -> _ValueReader:
    name = field.name
    read_length = _length_reader(field, flexible)
    element_size = _minimum_size(field, flexible)

    def read_numbers(cursor: Cursor) -> list[Any] | None:
        length = read_length(cursor)
        if length < 0:
            return None
        cursor.count(length, element_size, name)
        values = struct_unpack_from(f">{length}{FIXED_FORMATS[field.kind]}", cursor.data, cursor.position)
        cursor.position += length * element_size
        return list(values)

    if field.kind in FIXED_FORMATS and field.kind not in _CONVERSIONS:
        return read_numbers

    element = FieldShape(name, field.kind, field.entity, False, False, None, None)
    read_element = _value_reader(element, flexible)

    def read(cursor: Cursor) -> list[Any] | None:
        length = read_length(cursor)
        if length < 0:
            return None
        cursor.count(length, element_size, name)
        return [read_element(cursor)] if length == 1 else [read_element(cursor) for _ in range(length)]

    return read


def _minimum_size(field: FieldShape, flexible: bool) -> int:
    """How many bytes one element of this array takes at least."""
    if field.entity is not None:
        return _minimum_entity_size(field.entity)
    if field.kind in FIXED_FORMATS:
        return calcsize(">" + FIXED_FORMATS[field.kind])
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _minimum_entity_size(shape: EntityShape) -> int:
    size = 1 if shape.flexible else 0
    for field in shape.fields:
        if field.is_array:
            size += 1 if shape.flexible else 4
        else:
            size += _minimum_size(field, shape.flexible)
    return size


def _tagged_step(shape: EntityShape) -> _Step:
    """Read the tagged fields (KIP-482): unknown ones are skipped, absent ones take their default."""
    readers = {field.tag: (field.name, _value_reader(field, True)) for field in shape.tagged}
    defaults = {field.name: field.default for field in shape.tagged}

    def step(cursor: Cursor, fields: Fields) -> None:
        fields.update(defaults)
        count = cursor.unsigned_varint()
        if count == 0:
            return
        cursor.count(count, 2, "tagged fields")
        previous_tag = -1
        for _ in range(count):
            tag, size = cursor.unsigned_varint(), cursor.unsigned_varint()
            if tag <= previous_tag:
                raise ProtocolError(f"tagged field {tag} after {previous_tag}: tags must ascend")
            previous_tag = tag
            end = cursor.position + size
            if tag not in readers:
                cursor.take(size, f"tagged field {tag}")
                continue
            name, read_value = readers[tag]
            fields[name] = read_value(cursor)
            if cursor.position != end:
                raise ProtocolError(f"{name} (tag {tag}): {size} bytes declared, {size + cursor.position - end} taken")

    return step
