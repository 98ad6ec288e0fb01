"""Generates the source of a function that reads one message.  Nested structures are read inline, without calls.

The generated function has these variables: `data` is the frame, `end` its length, and `position` the next byte.
`left` is the number of array elements and tagged fields that the frame may still have.  `size` and `stop` belong to the
current value.  Malformed input is refused by functions of `schema_reader`.  Byte strings are copied out of `bytes`, but
are views of a bytearray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from struct import Struct, calcsize
from typing import Any, Final

from kraft_trio.wire.generated_function import FunctionSource
from kraft_trio.wire.schema import FIXED_FORMATS, EntityShape, FieldShape

_CONVERSIONS: Final = {"uuid": "uuid_of({})", "error_code": "error_codes.get({}, unknown_error)"}


def compile_reader(shape: EntityShape, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Compile `read(data, position, left) -> Fields` for a message that fills the rest of the frame."""
    return _ReaderSource(names).compiled(shape)


class _ReaderSource:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._source = FunctionSource("def read(data, position, left):", names)

    def compiled(self, shape: EntityShape) -> Callable[..., Any]:
        source = self._source
        source.line("end = len(data)")
        with source.block("try:"):
            source.line(f"fields = {self._structure(shape)}")
        with source.block("except IndexError:"):
            source.line("refuse_cut_varint(position)")
        with source.block("except StructError:"):
            source.line(f"refuse_cut_field({shape.name!r})")
        with source.block("if position != end:"):
            source.line(f"refuse_rest({shape.name!r}, end - position)")
        source.line("return fields")
        return source.compiled("read", f"reader of {shape.name}")

    def _structure(self, shape: EntityShape) -> str:
        """Add the lines that read a structure, and return the expression for its Fields.  So do the methods below."""
        values: dict[str, str] = {}
        for fixed, fields in groupby(shape.fields, key=lambda field: field.is_fixed):
            if fixed:
                values |= self._fixed_run(list(fields))
                continue
            for field in fields:
                values[field.name] = self._value(field, shape.flexible)
        if shape.flexible:
            values |= self._tagged_fields(shape.tagged)
        return "{" + ", ".join(f"{name!r}: {value}" for name, value in values.items()) + "}"

    def _fixed_run(self, run: list[FieldShape]) -> dict[str, str]:
        """Read neighbouring fields of fixed size in one step."""
        layout = Struct(">" + "".join(FIXED_FORMATS[field.kind] for field in run))
        variables = [self._source.variable(field.name) for field in run]
        unpack = self._source.constant("unpack", layout.unpack_from)
        self._source.line(f"{', '.join(variables)}{',' * (len(run) == 1)} = {unpack}(data, position)")
        self._source.line(f"position += {layout.size}")
        return {
            field.name: _CONVERSIONS.get(field.kind, "{}").format(variable)
            for field, variable in zip(run, variables, strict=True)
        }

    def _value(self, field: FieldShape, flexible: bool) -> str:
        if field.is_array:
            return self._array(field, flexible)
        if field.entity is not None:
            return self._structure(field.entity)
        if field.is_fixed:
            return self._fixed_run([field])[field.name]
        return self._bytes(field, flexible)

    def _varint(self, variable: str) -> None:
        """An unsigned varint (KIP-482).  A function call reads all but its first byte."""
        self._source.line(f"{variable} = data[position]")
        self._source.line("position += 1")
        with self._source.block(f"if {variable} >= 128:"):
            self._source.line(f"{variable}, position = long_varint(data, position - 1)")

    def _length(self, field: FieldShape, flexible: bool) -> None:
        """Read the length before a string, byte string or array into `size`; -1 means null, if it is allowed."""
        source = self._source
        if flexible:
            self._varint("size")
            source.line("size -= 1")
        else:
            layout = Struct(">h" if field.kind == "string" and not field.is_array else ">i")
            source.line(f"size, = {source.constant('unpack', layout.unpack_from)}(data, position)")
            source.line(f"position += {layout.size}")
        lowest = -1 if field.nullable else 0
        if lowest == 0 or not flexible:
            with source.block(f"if size < {lowest}:"):
                source.line(f"refuse_length({field.name!r}, size, {lowest})")

    def _bytes(self, field: FieldShape, flexible: bool) -> str:
        source = self._source
        variable = source.variable(field.name)
        self._length(field, flexible)
        if not field.nullable:
            self._present_bytes(field, variable)
            return variable
        with source.block("if size < 0:"):
            source.line(f"{variable} = None")
        with source.block("else:"):
            self._present_bytes(field, variable)
        return variable

    def _present_bytes(self, field: FieldShape, variable: str) -> None:
        source = self._source
        self._stop(repr(field.name))
        if field.kind == "string":
            with source.block("try:"):
                source.line(f"{variable} = data[position:stop].decode()")
            with source.block("except UnicodeDecodeError:"):
                source.line(f"refuse_text({field.name!r}, data[position:stop])")
        else:
            source.line(f"{variable} = data[position:stop] if type(data) is bytes else memoryview(data)[position:stop]")
        source.line("position = stop")

    def _stop(self, name: str) -> None:
        """Set `stop` to the end of the next `size` bytes, after checking that the frame has them."""
        self._source.line("stop = position + size")
        with self._source.block("if stop > end:"):
            self._source.line(f"refuse_size({name}, size, end - position)")

    def _array(self, field: FieldShape, flexible: bool) -> str:
        source = self._source
        variable = source.variable(field.name)
        self._length(field, flexible)
        if not field.nullable:
            self._elements(field, flexible, variable)
            return variable
        with source.block("if size < 0:"):
            source.line(f"{variable} = None")
        with source.block("else:"):
            self._elements(field, flexible, variable)
        return variable

    def _elements(self, field: FieldShape, flexible: bool, variable: str) -> None:
        source = self._source
        element_size = _minimum_size(field, flexible)
        source.line(f"{variable} = []")
        with source.block("if size:"):
            self._count("size", element_size, field.name)
            if field.kind in FIXED_FORMATS and field.kind not in _CONVERSIONS:
                source.line(f"{variable} += unpack_from(f'>{{size}}{FIXED_FORMATS[field.kind]}', data, position)")
                source.line(f"position += size * {element_size}")
                return
            # Not a range: arrays usually have one element, and a range takes longer to set up than the loop to run.
            rest = source.variable("rest")
            source.line(f"{rest} = size")
            with source.block(f"while {rest}:"):
                source.line(f"{rest} -= 1")
                element = FieldShape(field.name, field.kind, field.entity, False, False, None, None)
                source.line(f"{variable}.append({self._value(element, flexible)})")

    def _count(self, count: str, element_size: int, name: str) -> None:
        """Check that the frame has room for `count` elements of `element_size` bytes or more, and count them."""
        with self._source.block(f"if {count} * {element_size} > end - position:"):
            self._source.line(f"refuse_count({name!r}, {count}, end - position)")
        self._source.line(f"left -= {count}")
        with self._source.block("if left < 0:"):
            self._source.line(f"refuse_elements({name!r})")

    def _tagged_fields(self, tagged: tuple[FieldShape, ...]) -> dict[str, str]:
        """Read the tagged fields (KIP-482).  Unknown fields are skipped; absent fields get their default."""
        source = self._source
        if not tagged:
            with source.block("if data[position]:"):
                source.line("position, left = skip_tagged_fields(data, position, left)")
            with source.block("else:"):
                source.line("position += 1")
            return {}
        variables = {field.name: source.variable(field.name) for field in tagged}
        for field in tagged:
            source.line(f"{variables[field.name]} = {source.constant('default', field.default)}")
        count, tag, previous = source.variable("count"), source.variable("tag"), source.variable("previous_tag")
        tag_size, tag_end = source.variable("tag_size"), source.variable("tag_end")
        self._varint(count)
        with source.block(f"if {count}:"):
            self._count(count, 2, "tagged fields")
            source.line(f"{previous} = -1")
            with source.block(f"while {count}:"):
                source.line(f"{count} -= 1")
                self._varint(tag)
                self._varint(tag_size)
                with source.block(f"if {tag} <= {previous}:"):
                    source.line(f"refuse_tag({tag}, {previous})")
                source.line(f"{previous} = {tag}")
                source.line(f"{tag_end} = position + {tag_size}")
                for field in tagged:
                    with source.block(f"if {tag} == {field.tag}:"):
                        source.line(f"{variables[field.name]} = {self._value(field, True)}")
                        with source.block(f"if position != {tag_end}:"):
                            source.line(f"refuse_tag_size({field.name!r}, {tag}, {tag_size}, position - {tag_end})")
                        source.line("continue")
                with source.block(f"if {tag_end} > end:"):
                    source.line(f"refuse_size(f'tagged field {{{tag}}}', {tag_size}, end - position)")
                source.line(f"position = {tag_end}")
        return variables


def _minimum_size(field: FieldShape, flexible: bool) -> int:
    """The smallest size of one element of the array, in bytes."""
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
