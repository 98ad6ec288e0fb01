"""Generates the source of a function that writes one structure.  Nested structures are written inline, without calls.

Neighbouring values of fixed size, including tags and empty tagged sections, share one `struct` call.  The pieces
between two branches are added to `chunks` in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from struct import Struct, calcsize
from typing import Any, TypeAlias
from uuid import UUID

from kraft_trio.wire.fields import FORMATS
from kraft_trio.wire.generated_function import FunctionSource
from kraft_trio.wire.schema import Field, Form, Structure

Reach: TypeAlias = Callable[[str], str]
"""The expression for an attribute of the object that is written."""


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


def compile_writer(structure: Structure, title: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Compile `write(chunks, message)`, which appends the pieces of the message to a list."""
    return _WriterSource(names).compiled(structure, title)


class _WriterSource:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._source = FunctionSource("def write(chunks, message):", names)
        self._target = "chunks"
        self._pieces: list[str] = []
        """Expressions for the bytes to add to the target next."""
        self._format = ""
        self._arguments: list[str] = []
        """The `struct` format and arguments of the values of fixed size that follow the pieces."""

    def compiled(self, structure: Structure, title: str) -> Callable[..., Any]:
        for name, value, reason in structure.demands:
            with self._source.block(f"if message.{name} != {self._source.constant('default', value)}:"):
                self._source.line(f"refuse_version({reason!r})")
        self._structure(structure, "message.{}".format)
        self._flush()
        self._source.line("return")
        return self._source.compiled("write", f"writer of {title}")

    def _structure(self, structure: Structure, reach: Reach, *, is_inline: bool = False) -> None:
        for field in structure.members:
            self._member(field, structure.flexible, reach)
        if structure.tagged:
            self._tagged_fields(structure.tagged, reach)
        elif structure.flexible and not is_inline:
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
        layout = Struct(">" + format)
        if not arguments:
            return repr(layout.pack())
        return f"{self._source.constant('pack', layout.pack)}({', '.join(arguments)})"

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

    def _bound(self, stem: str, value: str) -> str:
        variable = self._source.variable(stem)
        self._source.line(f"{variable} = {value}")
        return variable

    def _member(self, field: Field, flexible: bool, reach: Reach) -> None:
        if field.form is Form.NEST:
            assert field.structure is not None
            self._structure(field.structure, reach)
        elif field.form is Form.ONLY:
            self._only(field, flexible, reach)
        elif field.form is Form.GROUPS:
            self._groups(field, flexible, reach)
        elif field.attribute is None:
            self._constant(field, flexible)
        else:
            self._value(field, flexible, self._reached(field, reach))

    def _reached(self, field: Field, reach: Reach) -> str:
        """The expression for the value on the wire."""
        assert field.attribute is not None
        value, via = reach(field.attribute), field.via
        if via is None or via.write is None:
            return value
        others = [reach(other) for other in via.beside]
        if isinstance(via.write, str):
            return f"({via.write.format(value, *others)})"
        return f"{self._source.constant('via', via.write)}({', '.join((value, *others))})"

    def _constant(self, field: Field, flexible: bool) -> None:
        """A field without an attribute."""
        if field.is_fixed:
            if not field.default or field.default == UUID(int=0):
                self._fixed(f"{calcsize('>' + FORMATS[field.kind])}x")
            else:
                self._fixed(FORMATS[field.kind], repr(field.default))
            return
        assert not field.default, f"{field.name} can only be empty or null"
        self._length(field, flexible, "-1" if field.default is None else "0")

    def _value(self, field: Field, flexible: bool, value: str) -> None:
        if field.is_array:
            self._array(field, flexible, value)
        elif field.structure is not None:
            self._object(field, value)
        elif not field.is_fixed:
            self._bytes(field, flexible, value)
        elif field.kind == "uuid":
            self._fixed(FORMATS["uuid"], f"{value}.bytes")
        else:
            self._fixed(FORMATS[field.kind], value)

    def _object(self, field: Field, value: str) -> None:
        structure = field.structure
        assert structure is not None
        assert structure.make is not None
        make = structure.make
        if not value.isidentifier() or make.none is not None:
            value = self._bound(field.name, value)
        if make.none is not None:
            none = self._source.constant("none", make.type(*make.none))
            with self._source.block(f"if {value} is None:"):
                self._source.line(f"{value} = {none}")
        self._structure(structure, self._reach_of(structure, value), is_inline=field.form is Form.INLINE)

    def _reach_of(self, structure: Structure, value: str) -> Reach:
        """`value` is a variable."""
        assert structure.make is not None
        if structure.make.type is not tuple:
            return (value + ".{}").format
        names = {name: self._source.variable("part") for name in structure.make.arguments}
        self._source.line(f"{', '.join(names.values())}, = {value}")
        return names.__getitem__

    def _length(self, field: Field, flexible: bool, length: str) -> None:
        """Write the length before a string, byte string or array; -1 means null."""
        if not flexible:
            self._fixed("h" if field.kind == "string" and not field.is_array else "i", length)
        elif length in ("-1", "0", "1"):
            self._fixed("B", str(int(length) + 1))
        else:
            plus_1 = self._bound("length", f"{length} + 1")
            self._piece(f"one_byte[{plus_1}] if {plus_1} < 128 else unsigned_varint({plus_1})")

    def _refuse_null(self, field: Field, value: str) -> None:
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"refuse_null({field.name!r})")

    def _bytes(self, field: Field, flexible: bool, value: str) -> None:
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

    def _array(self, field: Field, flexible: bool, value: str) -> None:
        values = self._bound(field.name, value)
        if field.nullable:
            with self._block(f"if {values} is None:"):
                self._length(field, flexible, "-1")
            with self._block("else:"):
                self._elements(field, flexible, values)
        else:
            self._refuse_null(field, values)
            self._elements(field, flexible, values)

    def _elements(self, field: Field, flexible: bool, values: str) -> None:
        self._length(field, flexible, f"len({values})")
        element = self._source.variable("element")
        with self._block(f"for {element} in {values}:"):
            self._value(field.element, flexible, element)

    def _groups(self, field: Field, flexible: bool, reach: Reach) -> None:
        assert field.structure is not None
        assert field.attribute is not None
        *shared, array = field.structure.members
        values = self._bound(field.name, reach(field.attribute))
        key = self._source.constant("key", attrgetter(*field.unknown))
        groups = self._bound("groups", f"({values},) if len({values}) == 1 else neighbours({values}, {key})")
        self._length(field, flexible, f"len({groups})")
        group = self._source.variable("group")
        with self._block(f"for {group} in {groups}:"):
            first = self._bound("first", f"{group}[0]")
            for member in shared:
                self._member(member, flexible, (first + ".{}").format)
            self._elements(array, flexible, group)
            if flexible:
                self._fixed("x")

    def _only(self, field: Field, flexible: bool, reach: Reach) -> None:
        structure = field.structure
        assert structure is not None
        if field.unless is None:
            self._length(field, flexible, "1")
            self._structure(structure, reach)
            return
        with self._block(f"if {reach(field.unless)}:"):
            self._length(field, flexible, "0")
        with self._block("else:"):
            name = structure.members[0].attribute
            assert name is not None
            with self._source.block(f"if not {reach(name)}:"):
                self._source.line(f"refuse_no_topic({name!r})")
            self._length(field, flexible, "1")
            self._structure(structure, reach)

    def _tagged_fields(self, tagged: tuple[Field, ...], reach: Reach) -> None:
        """Write the tagged fields that differ from their default, in the order of their tags (KIP-482)."""
        sent = self._bound("sent", "[]")
        self._flush()
        for field in tagged:
            if field.form is Form.NEST:
                assert field.structure is not None
                leaves = [leaf for leaf in field.structure.members if leaf.attribute is not None]
                differs = " or ".join(self._differs(leaf, self._reached(leaf, reach)) for leaf in leaves)
                with self._block(f"if {differs}:"):
                    self._tagged_field(field, "", sent, reach)
            elif field.attribute is not None:
                value = self._bound(field.name, self._reached(field, reach))
                with self._block(f"if {self._differs(field, value)}:"):
                    self._tagged_field(field, value, sent, reach)
        self._piece(f"one_byte[len({sent})]")
        self._flush()
        self._source.line(f"{self._target} += {sent}")

    def _differs(self, field: Field, value: str) -> str:
        if field.kind == "uuid" and field.default == UUID(int=0):
            return f"{value}.int"
        if field.default is None:
            make = None if field.structure is None else field.structure.make
            none = None if make is None else make.none
            if make is None or none is None:
                return f"{value} is not None"
            return f"{value} is not None and {value} != {self._source.constant('none', make.type(*none))}"
        if field.is_array and not field.default:
            return value
        return f"{value} != {self._source.constant('default', field.default)}"

    def _tagged_field(self, field: Field, value: str, sent: str, reach: Reach) -> None:
        """Append one chunk to `sent`: tag, size and value."""

        def write() -> None:
            if field.form is Form.NEST:
                self._member(field, True, reach)
            else:
                self._value(field, True, value)

        tag = unsigned_varint(field.tag or 0)
        if _is_fixed(field):
            write()
            start = tag + unsigned_varint(calcsize(">" + self._format))
            written = self._packed(f"{len(start)}s{self._format}", [repr(start), *self._arguments])
            self._format, self._arguments = "", []
        else:
            outer, self._target = self._target, self._bound("written", "[]")
            write()
            self._flush()
            raw = self._bound("raw", f"b''.join({self._target})")
            self._target = outer
            written = f"{tag!r} + unsigned_varint(len({raw})) + {raw}"
        self._source.line(f"{sent}.append({written})")


def _is_fixed(field: Field) -> bool:
    """Whether the value always has the same size."""
    if field.structure is None or field.is_array:
        return field.is_fixed
    return not field.structure.tagged and all(map(_is_fixed, field.structure.members))
