"""`Fields` into bytes, by a shape of `schema`.

The fields may hold more than the version has: what the schema does not name is not written.  A value that does not
fit its type is a bug of ours and raises what `struct` raises; a missing field raises KeyError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from struct import Struct
from typing import Any, Final, TypeAlias

from kraft_trio.wire.schema import FIXED_FORMATS, EntityShape, Fields, FieldShape

Chunks: TypeAlias = list[bytes]
"""The pieces of a message, to be joined: records are then copied once."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")

EntityWriter: TypeAlias = Callable[[Chunks, Fields], None]
_ValueWriter: TypeAlias = Callable[[Chunks, Any], None]

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))


def unsigned_varint(value: int) -> bytes:
    """KIP-482: seven bits a byte, the lowest first."""
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


@cache
def entity_writer(shape: EntityShape) -> EntityWriter:
    """The compiled writer of a structure: neighbouring fields of fixed size are packed in one step."""
    steps = _steps(shape)

    def write(chunks: Chunks, fields: Fields) -> None:
        for step in steps:
            step(chunks, fields)

    return write


def _steps(shape: EntityShape) -> tuple[EntityWriter, ...]:
    steps: list[EntityWriter] = []
    run: list[FieldShape] = []
    for field in shape.fields:
        if field.is_fixed:
            run.append(field)
            continue
        if run:
            steps.append(_run_step(run))
            run = []
        steps.append(_field_step(field.name, _value_writer(field, shape.flexible)))
    if run:
        steps.append(_run_step(run))
    if shape.flexible:
        steps.append(_tagged_step(shape))
    return tuple(steps)


def _field_step(name: str, write_value: _ValueWriter) -> EntityWriter:
    def step(chunks: Chunks, fields: Fields) -> None:
        write_value(chunks, fields[name])

    return step


def _run_step(run: list[FieldShape]) -> EntityWriter:
    pack = Struct(">" + "".join(FIXED_FORMATS[field.kind] for field in run)).pack
    if any(field.kind == "uuid" for field in run):
        plan = tuple((field.name, field.kind == "uuid") for field in run)

        def step_with_uuid(chunks: Chunks, fields: Fields) -> None:
            chunks.append(pack(*[fields[name].bytes if is_uuid else fields[name] for name, is_uuid in plan]))

        return step_with_uuid
    if len(run) == 1:
        name = run[0].name

        def step_of_one(chunks: Chunks, fields: Fields) -> None:
            chunks.append(pack(fields[name]))

        return step_of_one
    values = itemgetter(*(field.name for field in run))

    def step(chunks: Chunks, fields: Fields) -> None:
        chunks.append(pack(*values(fields)))

    return step


def _value_writer(field: FieldShape, flexible: bool) -> _ValueWriter:
    if field.is_array:
        return _array_writer(field, flexible)
    if field.entity is not None:
        return entity_writer(field.entity)
    if field.is_fixed:
        return _fixed_writer(field)
    return _bytes_writer(field, flexible)


def _fixed_writer(field: FieldShape) -> _ValueWriter:
    pack = Struct(">" + FIXED_FORMATS[field.kind]).pack
    is_uuid = field.kind == "uuid"

    def write(chunks: Chunks, value: Any) -> None:
        chunks.append(pack(value.bytes if is_uuid else value))

    return write


def _length_writer(field: FieldShape, flexible: bool) -> Callable[[Chunks, int], None]:
    """Writes the length before a string, byte string or array; -1 for null."""
    pack = (_INT16 if field.kind == "string" and not field.is_array else _INT32).pack
    name, nullable = field.name, field.nullable

    def write(chunks: Chunks, length: int) -> None:
        assert length >= 0 or nullable, f"{name} may not be null in this version"
        chunks.append(unsigned_varint(length + 1) if flexible else pack(length))

    return write


def _bytes_writer(field: FieldShape, flexible: bool) -> _ValueWriter:
    write_length = _length_writer(field, flexible)

    def write(chunks: Chunks, value: str | bytes | None) -> None:
        if value is None:
            write_length(chunks, -1)
            return
        raw = value.encode() if isinstance(value, str) else value
        write_length(chunks, len(raw))
        chunks.append(raw)

    return write


def _array_writer(field: FieldShape, flexible: bool) -> _ValueWriter:
    write_length = _length_writer(field, flexible)
    write_element = _value_writer(FieldShape(field.name, field.kind, field.entity, False, False, None, None), flexible)

    def write(chunks: Chunks, values: Any) -> None:
        if values is None:
            write_length(chunks, -1)
            return
        write_length(chunks, len(values))
        for value in values:
            write_element(chunks, value)

    return write


def _tagged_step(shape: EntityShape) -> EntityWriter:
    """Write the tagged fields that differ from their default (KIP-482), in the order of their tags."""
    plan = tuple(
        (field.name, field.default, unsigned_varint(field.tag or 0), _value_writer(field, True))
        for field in shape.tagged
    )

    def step(chunks: Chunks, fields: Fields) -> None:
        sent: Chunks = []
        count = 0
        for name, default, tag, write_value in plan:
            value = fields[name]
            if value == default:
                continue
            written: Chunks = []
            write_value(written, value)
            raw = b"".join(written)
            sent += (tag, unsigned_varint(len(raw)), raw)
            count += 1
        chunks.append(unsigned_varint(count))
        chunks += sent

    return step
