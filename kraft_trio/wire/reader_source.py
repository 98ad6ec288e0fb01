"""Generates the source of a function that reads one message.  Nested structures are read inline, without calls.

The generated function has these variables: `data` is the frame, `end` its length, and `position` the next byte.
`left` is the number of array elements and tagged fields that the frame may still have.  `size` and `stop` belong to the
current value.  Malformed input is refused by functions of `schema_reader`.  Byte strings are copied out of `bytes`, but
are views of a bytearray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from struct import Struct, calcsize
from typing import Any, Final

import attrs

from kraft_trio.wire.fields import FORMATS, Via
from kraft_trio.wire.generated_function import FunctionSource
from kraft_trio.wire.schema import Field, Form, Make, Structure

_CONVERSIONS: Final = {"uuid": "uuid_of({})", "error_code": "error_codes.get({}, unknown_error)"}


def compile_reader(structure: Structure, title: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Compile `read(data, position, left)` for a message that fills the rest of the frame."""
    return _ReaderSource(names).compiled(structure, title)


@attrs.define
class _Values:
    """The expressions for the attributes of one object, as far as they have been read."""

    read: dict[str, str] = attrs.field(factory=dict)
    later: dict[str, tuple[Via, str]] = attrs.field(factory=dict)
    """Those that need others, with what was read."""


class _ReaderSource:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._source = FunctionSource("def read(data, position, left):", names)
        self._run: list[tuple[str, str | None]] = []
        """Formats and variables of the values of fixed size that are read next, in one step."""
        self._is_one: str | None = None
        """The variable that says whether all arrays of one structure around here have one."""

    def compiled(self, structure: Structure, title: str) -> Callable[..., Any]:
        source = self._source
        source.line("end = len(data)")
        with source.block("try:"):
            value = self._object(structure)
            self._line(f"message = {value}")
        with source.block("except IndexError:"):
            source.line("refuse_cut_varint(position)")
        with source.block("except StructError:"):
            source.line(f"refuse_cut_field({title!r})")
        with source.block("if position != end:"):
            source.line(f"refuse_rest({title!r}, end - position)")
        source.line("return message")
        return source.compiled("read", f"reader of {title}")

    def _line(self, text: str) -> None:
        self._flush()
        self._source.line(text)

    @contextmanager
    def _block(self, header: str) -> Iterator[None]:
        self._flush()
        with self._source.block(header):
            yield
            self._flush()

    def _flush(self) -> None:
        """Read the run."""
        if not self._run:
            return
        layout = Struct(">" + "".join(format for format, _ in self._run))
        variables = [variable for _, variable in self._run if variable is not None]
        targets = "" if not variables else f"{', '.join(variables)}{',' * (len(variables) == 1)} = "
        self._run = []
        self._source.line(f"{targets}{self._source.constant('unpack', layout.unpack_from)}(data, position)")
        self._source.line(f"position += {layout.size}")

    def _bound(self, stem: str, value: str) -> str:
        if value.isidentifier() and value != "None":
            return value
        variable = self._source.variable(stem)
        self._line(f"{variable} = {value}")
        return variable

    def _object(self, structure: Structure) -> str:
        """Add the lines that read a structure, and return the expression for its object.  So do the methods below."""
        values = _Values()
        self._structure(structure, values)
        return self._made(structure.make, values)

    def _made(self, make: Make | None, values: _Values) -> str:
        assert make is not None
        read = values.read
        for name, (via, raw) in values.later.items():
            read[name] = self._via(via, raw, [read[other] for other in via.beside])
        arguments = [
            read[name] if name in read else self._source.constant("absent", absent)
            for name, absent in make.arguments.items()
        ]
        if make.type is tuple:
            return f"({', '.join(arguments)},)"
        if make.none is not None:
            arguments = [self._bound("part", argument) for argument in arguments]
        made = f"{self._source.constant(make.type.__name__, make.type)}({', '.join(arguments)})"
        if make.none is None:
            return made
        is_none = " and ".join(f"{argument} == {none!r}" for argument, none in zip(arguments, make.none, strict=False))
        return f"(None if {is_none} else {made})"

    def _via(self, via: Via, raw: str, others: list[str]) -> str:
        if via.read is None:
            return raw
        if isinstance(via.read, str):
            return f"({via.read.format(raw, *others)})"
        return f"{self._source.constant('via', via.read)}({', '.join((raw, *others))})"

    def _structure(self, structure: Structure, values: _Values, *, is_inline: bool = False) -> None:
        for field in structure.members:
            self._member(field, structure.flexible, values)
        if structure.flexible and not is_inline:
            self._tagged_fields(structure.tagged, values)

    def _member(self, field: Field, flexible: bool, values: _Values) -> None:
        if field.form is Form.NEST:
            assert field.structure is not None
            self._structure(field.structure, values)
        elif field.form is Form.ONLY:
            self._only(field, flexible, values)
        else:
            self._keep(field, self._value(field, flexible), values)

    def _keep(self, field: Field, value: str, values: _Values) -> None:
        via, attribute = field.via, field.attribute
        if via is not None and via.beside:
            assert attribute is not None
            values.later[attribute] = (via, value)
        elif attribute is not None and attribute not in values.read:
            values.read[attribute] = value if via is None else self._via(via, value, [])

    def _value(self, field: Field, flexible: bool) -> str:
        if field.form is Form.GROUPS:
            return self._groups(field, flexible)
        if field.is_array:
            return self._array(field, flexible)
        if field.structure is None:
            return self._fixed(field) if field.is_fixed else self._bytes(field, flexible)
        if field.form is Form.INLINE:
            values = _Values()
            self._structure(field.structure, values, is_inline=True)
            return self._made(field.structure.make, values)
        return self._object(field.structure)

    def _fixed(self, field: Field) -> str:
        format = FORMATS[field.kind]
        if field.attribute is None:
            self._run.append((f"{calcsize('>' + format)}x", None))
            return ""
        variable = self._source.variable(field.name)
        self._run.append((format, variable))
        return _CONVERSIONS.get(field.kind, "{}").format(variable)

    def _varint(self, variable: str) -> None:
        """An unsigned varint (KIP-482).  A function call reads all but its first byte."""
        self._line(f"{variable} = data[position]")
        self._line("position += 1")
        with self._block(f"if {variable} >= 128:"):
            self._line(f"{variable}, position = long_varint(data, position - 1)")

    def _length(self, field: Field, flexible: bool) -> None:
        """Read the length before a string, byte string or array into `size`; -1 means null, if it is allowed."""
        if flexible:
            self._varint("size")
            self._line("size -= 1")
        else:
            self._run.append(("h" if field.kind == "string" and not field.is_array else "i", "size"))
        lowest = -1 if field.nullable else 0
        if lowest == 0 or not flexible:
            with self._block(f"if size < {lowest}:"):
                self._line(f"refuse_length({field.name!r}, size, {lowest})")

    def _bytes(self, field: Field, flexible: bool) -> str:
        variable = self._source.variable(field.name)
        self._length(field, flexible)
        if not field.nullable:
            self._present_bytes(field, variable)
            return variable
        with self._block("if size < 0:"):
            self._line(f"{variable} = None")
        with self._block("else:"):
            self._present_bytes(field, variable)
        return variable

    def _present_bytes(self, field: Field, variable: str) -> None:
        self._line("stop = position + size")
        with self._block("if stop > end:"):
            self._line(f"refuse_size({field.name!r}, size, end - position)")
        if field.kind == "string":
            with self._block("try:"):
                self._line(f"{variable} = data[position:stop].decode()")
            with self._block("except UnicodeDecodeError:"):
                self._line(f"refuse_text({field.name!r}, data[position:stop])")
        else:
            self._line(f"{variable} = data[position:stop] if type(data) is bytes else memoryview(data)[position:stop]")
        self._line("position = stop")

    def _array(self, field: Field, flexible: bool) -> str:
        variable = self._source.variable(field.name)
        self._length(field, flexible)
        with self._block("if size > 0:"):
            size = _minimum_size(field, flexible)
            self._count("size", size, field.name)
            if field.kind in FORMATS and field.kind not in _CONVERSIONS:
                self._line(f"{variable} = unpack_from(f'>{{size}}{FORMATS[field.kind]}', data, position)")
                self._line(f"position += size * {size}")
            else:
                self._line(f"{variable} = []")
                with self._loop():
                    self._line(f"{variable}.append({self._value(field.element, flexible)})")
                self._line(f"{variable} = tuple({variable})")
        with self._block("else:"):
            self._line(f"{variable} = {'None if size else ()' if field.nullable else '()'}")
        return variable

    @contextmanager
    def _loop(self) -> Iterator[None]:
        """Not over a range: arrays usually have one element, and setting up a range takes longer than its loop."""
        rest = self._source.variable("rest")
        self._line(f"{rest} = size")
        with self._block(f"while {rest}:"):
            self._line(f"{rest} -= 1")
            yield

    def _count(self, count: str, element_size: int, name: str) -> None:
        """Check that the frame has room for `count` elements of `element_size` bytes or more, and count them."""
        with self._block(f"if {count} * {element_size} > end - position:"):
            self._line(f"refuse_count({name!r}, {count}, end - position)")
        self._line(f"left -= {count}")
        with self._block("if left < 0:"):
            self._line(f"refuse_elements({name!r})")

    def _elements(self, field: Field, flexible: bool) -> None:
        """Read the length of an array whose elements follow in a loop, and check it."""
        self._length(field, flexible)
        self._count("size", _minimum_size(field, flexible), field.name)

    def _groups(self, field: Field, flexible: bool) -> str:
        """The elements of all groups, each with what its group shares."""
        assert field.structure is not None
        *shared, array = field.structure.members
        variable = self._source.variable(field.name)
        self._elements(field, flexible)
        self._line(f"{variable} = []")
        with self._loop():
            values = _Values()
            for member in shared:
                self._member(member, flexible, values)
            values.read = {name: self._bound(name, value) for name, value in values.read.items()}
            self._elements(array, flexible)
            with self._loop():
                inner = _Values(dict(values.read))
                assert array.structure is not None
                self._structure(array.structure, inner)
                self._line(f"{variable}.append({self._made(array.structure.make, inner)})")
            if flexible:
                self._tagged_fields((), values)
        return f"tuple({variable})"

    def _only(self, field: Field, flexible: bool, values: _Values) -> None:
        """The array should have one structure.  All are read, and then refused if it has another number."""
        assert field.structure is not None
        outer = self._is_one
        self._is_one = outer or self._source.variable("is_one")
        self._elements(field, flexible)
        self._line(f"{self._is_one} = size == 1" + (f" and {outer}" if outer else ""))
        with self._loop():
            inner = _Values()
            self._structure(field.structure, inner)
            variables = {name: self._source.variable(name) for name in inner.read}
            with self._block(f"if {self._is_one}:"):
                for name, value in inner.read.items():
                    self._line(f"{variables[name]} = {value}")
        is_one, self._is_one = self._is_one, outer
        if outer is None:
            condition = f"not {is_one}"
            if field.unless is not None:
                error = values.read[field.unless]
                condition = f"{error} or not {is_one}"
            with self._block(f"if {condition}:"):
                if field.unless is not None:
                    with self._block(f"if not {error}:"):
                        self._line(f"refuse_not_one({field.name!r})")
                for name, variable in variables.items():
                    self._line(f"{variable} = {self._source.constant('unknown', field.unknown[name])}")
        values.read |= variables

    def _tagged_fields(self, tagged: tuple[Field, ...], values: _Values) -> None:
        """Read the tagged fields (KIP-482).  Unknown fields are skipped; absent fields get their default."""
        if not tagged:
            with self._block("if data[position]:"):
                self._line("position, left = skip_tagged_fields(data, position, left)")
            with self._block("else:"):
                self._line("position += 1")
            return
        variables = [self._defaults(field, values) for field in tagged]
        source = self._source
        count, tag, previous = source.variable("count"), source.variable("tag"), source.variable("previous_tag")
        tag_size, tag_end = source.variable("tag_size"), source.variable("tag_end")
        self._varint(count)
        with self._block(f"if {count}:"):
            self._count(count, 2, "tagged fields")
            self._line(f"{previous} = -1")
            with self._block(f"while {count}:"):
                self._line(f"{count} -= 1")
                self._varint(tag)
                self._varint(tag_size)
                with self._block(f"if {tag} <= {previous}:"):
                    self._line(f"refuse_tag({tag}, {previous})")
                self._line(f"{previous} = {tag}")
                self._line(f"{tag_end} = position + {tag_size}")
                for field, targets in zip(tagged, variables, strict=True):
                    with self._block(f"if {tag} == {field.tag}:"):
                        self._tagged_value(field, targets)
                        with self._block(f"if position != {tag_end}:"):
                            self._line(f"refuse_tag_size({field.name!r}, {tag}, {tag_size}, position - {tag_end})")
                        self._line("continue")
                with self._block(f"if {tag_end} > end:"):
                    self._line(f"refuse_size(f'tagged field {{{tag}}}', {tag_size}, end - position)")
                self._line(f"position = {tag_end}")

    def _defaults(self, field: Field, values: _Values) -> dict[str, str]:
        """Set the variables of a tagged field to what it is if it is not sent."""
        leaves = field.structure.members if field.form is Form.NEST and field.structure is not None else (field,)
        variables = {}
        for leaf in leaves:
            if leaf.attribute is not None:
                variables[leaf.attribute] = variable = self._source.variable(leaf.name)
                self._line(f"{variable} = {self._source.constant('default', leaf.default)}")
                if leaf.via is not None and leaf.via.beside:
                    values.later[leaf.attribute] = (leaf.via, variable)
                else:
                    values.read.setdefault(leaf.attribute, variable)
        return variables

    def _tagged_value(self, field: Field, variables: Mapping[str, str]) -> None:
        inner = _Values()
        self._member(field, True, inner)
        for name, (_, raw) in inner.later.items():
            self._line(f"{variables[name]} = {raw}")
        for name, value in inner.read.items():
            self._line(f"{variables[name]} = {value}")


def _minimum_size(field: Field, flexible: bool) -> int:
    """The smallest size of one element of the array, in bytes."""
    if field.structure is not None:
        return _minimum_structure_size(field.structure)
    if field.kind in FORMATS:
        return calcsize(">" + FORMATS[field.kind])
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _minimum_structure_size(structure: Structure) -> int:
    size = 1 if structure.flexible else 0
    for field in structure.fields:
        if field.is_array:
            size += 1 if structure.flexible else 4
        else:
            size += _minimum_size(field, structure.flexible)
    return size
