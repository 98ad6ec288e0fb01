"""Generates the source of a function that writes one structure.  Nested structures are written inline, without calls.

Neighbouring values of fixed size, including tags and empty tagged sections, share one `struct` call.  The pieces
between two branches are added to `chunks` in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from struct import Struct, calcsize
from typing import Any
from uuid import UUID

from kraft_trio.wire.generated_function import FunctionSource
from kraft_trio.wire.schema import FIXED_FORMATS, EntityShape, FieldShape


def unsigned_varint(value: int) -> bytes:
    """An unsigned varint (KIP-482): seven bits in each byte, lowest first."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def compile_writer(shape: EntityShape, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Compile `write(chunks, fields)`, which appends the pieces of the structure to a list."""
    source = _WriterSource(names)
    source.structure(shape, "fields")
    return source.compiled(f"writer of {shape.name}")


class _WriterSource:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._source = FunctionSource("def write(chunks, fields):", names)
        self._target = "chunks"
        self._pieces: list[str] = []
        """Expressions for the bytes to add to the target next."""
        self._format = ""
        self._arguments: list[str] = []
        """The `struct` format and arguments of the values of fixed size that follow the pieces."""

    def compiled(self, title: str) -> Callable[..., Any]:
        self._flush()
        self._source.line("return")
        return self._source.compiled("write", title)

    def structure(self, shape: EntityShape, fields: str) -> None:
        """Add the lines that write a structure; the expression `fields` is its Fields."""
        for field in shape.fields:
            self._value(field, shape.flexible, f"{fields}[{field.name!r}]")
        if shape.tagged:
            self._tagged_fields(shape.tagged, fields)
        elif shape.flexible:
            self._fixed("x")

    def _fixed(self, format: str, *arguments: str) -> None:
        self._format += format
        self._arguments += arguments

    def _piece(self, expression: str) -> None:
        self._close_run()
        self._pieces.append(expression)

    def _close_run(self) -> None:
        if self._format:
            self._pieces.append(self._packed(self._format, self._arguments))
            self._format, self._arguments = "", []

    def _packed(self, format: str, arguments: list[str]) -> str:
        if not arguments:
            return repr(bytes(len(format)))
        pack = self._source.constant("pack", Struct(">" + format).pack)
        return f"{pack}({', '.join(arguments)})"

    def _flush(self) -> None:
        self._close_run()
        if len(self._pieces) == 1:
            self._source.line(f"{self._target}.append({self._pieces[0]})")
        elif self._pieces:
            self._source.line(f"{self._target} += ({', '.join(self._pieces)})")
        self._pieces = []

    @contextmanager
    def _block(self, header: str) -> Iterator[None]:
        """A branch or a loop.  Pending pieces are flushed before it and at its end."""
        self._flush()
        with self._source.block(header):
            yield
            self._flush()

    def _value(self, field: FieldShape, flexible: bool, value: str) -> None:
        if field.is_array:
            self._array(field, flexible, value)
        elif field.entity is not None:
            if not value.isidentifier():
                value = self._bound("fields", value)
            self.structure(field.entity, value)
        elif field.is_fixed:
            self._fixed(
                FIXED_FORMATS[field.kind], f"{value}.int.to_bytes(16, 'big')" if field.kind == "uuid" else value
            )
        else:
            self._bytes(field, flexible, value)

    def _bound(self, stem: str, value: str) -> str:
        variable = self._source.variable(stem)
        self._source.line(f"{variable} = {value}")
        return variable

    def _length(self, field: FieldShape, flexible: bool, length: str) -> None:
        """Write the length before a string, byte string or array; -1 means null."""
        if flexible:
            plus_1 = self._bound("length", f"{length} + 1")
            self._piece(f"one_byte[{plus_1}] if {plus_1} < 128 else unsigned_varint({plus_1})")
        else:
            self._fixed("h" if field.kind == "string" and not field.is_array else "i", length)

    def _refuse_null(self, field: FieldShape, value: str) -> None:
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"refuse_null({field.name!r})")

    def _bytes(self, field: FieldShape, flexible: bool, value: str) -> None:
        source = self._source
        value = self._bound(field.name, value)
        length = f"len({value})"
        encoded = f"{value} = {value}.encode()"
        if field.nullable:
            length = source.variable("size")
            with source.block(f"if {value} is None:"):
                source.line(f"{value}, {length} = b'', -1")
            with source.block("else:"):
                if field.kind == "string":
                    source.line(encoded)
                source.line(f"{length} = len({value})")
        else:
            self._refuse_null(field, value)
            if field.kind == "string":
                source.line(encoded)
        self._length(field, flexible, length)
        self._piece(value)

    def _array(self, field: FieldShape, flexible: bool, value: str) -> None:
        values = self._bound(field.name, value)
        if field.nullable:
            with self._block(f"if {values} is None:"):
                self._length(field, flexible, "-1")
            with self._block("else:"):
                self._elements(field, flexible, values)
        else:
            self._refuse_null(field, values)
            self._elements(field, flexible, values)

    def _elements(self, field: FieldShape, flexible: bool, values: str) -> None:
        self._length(field, flexible, f"len({values})")
        element = self._source.variable("element")
        with self._block(f"for {element} in {values}:"):
            self._value(FieldShape(field.name, field.kind, field.entity, False, False, None, None), flexible, element)

    def _tagged_fields(self, tagged: tuple[FieldShape, ...], fields: str) -> None:
        """Write the tagged fields that differ from their default, in the order of their tags (KIP-482)."""
        sent = self._bound("sent", "[]")
        self._flush()
        for field in tagged:
            value = self._bound(field.name, f"{fields}[{field.name!r}]")
            with self._block(self._differs(field, value)):
                self._tagged_field(field, value, sent)
        self._piece(f"one_byte[len({sent})]")
        self._flush()
        self._source.line(f"{self._target} += {sent}")

    def _differs(self, field: FieldShape, value: str) -> str:
        if field.kind == "uuid" and field.default == UUID(int=0):
            return f"if {value}.int:"
        if field.default is None:
            return f"if {value} is not None:"
        return f"if {value} != {self._source.constant('default', field.default)}:"

    def _tagged_field(self, field: FieldShape, value: str, sent: str) -> None:
        """Append one chunk to `sent`: tag, size and value."""
        tag = unsigned_varint(field.tag or 0)
        if _is_fixed(field):
            self._value(field, True, value)
            start = tag + unsigned_varint(calcsize(">" + self._format))
            written = self._packed(f"{len(start)}s{self._format}", [repr(start), *self._arguments])
            self._format, self._arguments = "", []
        else:
            outer, self._target = self._target, self._bound("written", "[]")
            self._value(field, True, value)
            self._flush()
            raw = self._bound("raw", f"b''.join({self._target})")
            self._target = outer
            written = f"{tag!r} + unsigned_varint(len({raw})) + {raw}"
        self._source.line(f"{sent}.append({written})")


def _is_fixed(field: FieldShape) -> bool:
    """Whether the value always has the same size."""
    if field.entity is None or field.is_array:
        return field.is_fixed
    return not field.entity.tagged and all(map(_is_fixed, field.entity.fields))
