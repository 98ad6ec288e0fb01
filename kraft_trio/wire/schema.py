"""What a message looks like in one version: made from the class that declares it with the words of `fields`.

`schema_reader` and `schema_writer` generate a function for each such structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from kraft_trio.wire.fields import FORMATS, INLINE, SHARED, VARIES, ByTopic, Kind, Nest, Parts, Place, Via

STRUCTURE: Final = "structure"

MarkerT = TypeVar("MarkerT")


class Form(Enum):
    """How a field on the wire and the attributes of an object belong together."""

    VALUE = auto()
    """The field is one attribute, or none."""
    INLINE = auto()
    """An attribute's fields, without a structure of their own on the wire."""
    NEST = auto()
    """A structure whose fields are attributes of the object around it."""
    ONLY = auto()
    """An array with one such structure."""
    GROUPS = auto()
    """An array of structures that hold neighbouring elements of one attribute."""


@attrs.frozen(eq=False, kw_only=True)
class Field:
    """One field of a structure.  `kind` is the name of a type, or STRUCTURE."""

    name: str
    kind: str
    structure: Structure | None = None
    is_array: bool = False
    nullable: bool = False
    tag: int | None = None
    form: Form = Form.VALUE
    attribute: str | None = None
    """The attribute of the object that has its value, or None."""
    default: Any = None
    """Of a tagged field: the attribute if it is not sent.  Of a field without an attribute: what is written."""
    via: Via | None = None
    varies: bool = False
    """See `Varying`."""
    unless: str | None = None
    """See `Nest`."""
    unknown: Mapping[str, Any] = attrs.field(factory=dict)
    """The attributes in a structure that is not there exactly once."""

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and self.kind in FORMATS

    @property
    def element(self) -> Field:
        """Of an array."""
        return Field(name=self.name, kind=self.kind, structure=self.structure, attribute=self.name)


@attrs.frozen(eq=False)
class Make:
    """How an object is made: its type, and its arguments in order with their values where a version has none."""

    type: Any
    arguments: Mapping[str, Any]
    none: tuple[Any, ...] | None = None
    """The arguments that mean None."""


@attrs.frozen(eq=False)
class Structure:
    """One structure in one version.  `tagged` is sorted by tag, and empty if the structure has no section for tags."""

    name: str
    flexible: bool
    members: tuple[Field, ...]
    tagged: tuple[Field, ...]
    make: Make | None
    """None if the fields are attributes of the object around it."""
    demands: tuple[tuple[str, Any, str], ...] = ()
    """Attributes that the version does not have, with the only value that it can express, and the reason."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """Those without a tag, as they are on the wire."""
        return tuple(_on_the_wire(self.members))

    @property
    def all_fields(self) -> tuple[Field, ...]:
        """`fields`, then those with a tag."""
        return (*self.fields, *self.tagged)


def _on_the_wire(members: Iterable[Field]) -> Iterator[Field]:
    for field in members:
        if field.form is Form.INLINE:
            assert field.structure is not None
            yield from _on_the_wire(field.structure.members)
        else:
            yield field


def structure_of(hint: Any, version: int, *, flexible: bool) -> Structure:
    """The structure of a message in one version.  `flexible` versions have compact types and tags (KIP-482).

    `hint` is the class, with or without `Parts`.
    """
    structure = _Version(version, flexible).shape(_unfolded(hint)).structure
    assert structure is not None
    return structure


@attrs.frozen
class _Hint:
    """An annotation taken apart: the type without the rest, the markers of Annotated, and whether it may be None."""

    base: Any
    markers: tuple[Any, ...] = ()
    nullable: bool = False

    def marker(self, kind: type[MarkerT]) -> MarkerT | None:
        return next((one for one in reversed(self.markers) if isinstance(one, kind)), None)

    @property
    def place(self) -> Place:
        return self.marker(Place) or Place()

    @property
    def nests(self) -> tuple[Nest, ...]:
        """Outermost first."""
        nest, found = self.marker(Nest), list[Nest]()
        while nest is not None:
            found.append(nest)
            nest = nest.inside
        return tuple(reversed(found))

    def empty(self, *, unknown: bool) -> Any:
        """The value of a missing field: zero, or the one that means unknown."""
        kind, parts = self.marker(Kind), self.marker(Parts)
        if self.nullable:
            return None
        if kind is not None:
            return kind.unknown if unknown else kind.zero
        if parts is not None:
            names = [one.name for one in attrs.fields(self.base) if one.name in parts.hints]
            return self.base(*(_unfolded(parts.hints[name]).empty(unknown=unknown) for name in names))
        return () if get_origin(self.base) is tuple else None


def _unfolded(hint: Any) -> _Hint:
    origin = get_origin(hint)
    if origin is ClassVar:
        return _unfolded(get_args(hint)[0])
    if origin is Annotated:
        inner = _unfolded(hint.__origin__)
        return attrs.evolve(inner, markers=(*inner.markers, *hint.__metadata__))
    if origin in (Union, UnionType) and NoneType in get_args(hint):
        rest = [one for one in get_args(hint) if one is not NoneType]
        return attrs.evolve(_unfolded(Union[tuple(rest)]), nullable=True)  # noqa: UP007
    return _Hint(hint)


@attrs.frozen(eq=False)
class _Member:
    """What a class declares: a field with the attribute that it belongs to."""

    name: str
    hint: _Hint
    attribute: str | None
    default: Any

    @property
    def absent(self) -> Any:
        given = self.hint.place.absent
        return self.unknown if given is ... else given

    @property
    def unknown(self) -> Any:
        return self.hint.empty(unknown=True) if self.default is attrs.NOTHING else self.default


def _declared(cls: Any, hints: Mapping[str, Any]) -> list[_Member]:
    """The fields of a class, in the order of the wire."""
    attributes = {one.name: one for one in attrs.fields(cls)}
    members: list[_Member] = []
    for name, annotation in hints.items():
        hint = _unfolded(annotation)
        attribute = hint.place.of or (name if name in attributes else None)
        if attribute is None:
            default = getattr(cls, name, hint.empty(unknown=False))
        else:
            default = attributes[attribute].default
            if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
                default = attrs.NOTHING if default.takes_self else default.factory()
        members.append(_Member(name, hint, attribute, default))
    return _in_order(members)


@cache
def _hints(cls: Any) -> Mapping[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _element(at: int, hint: _Hint) -> _Member:
    """Of a tuple."""
    name = hint.marker(str) or f"item_{at}"
    return _Member(name, hint, name, attrs.NOTHING)


def _in_order(members: Sequence[_Member]) -> list[_Member]:
    ordered = [member for member in members if member.hint.place.after is None]
    for member in members:
        if member.hint.place.after is not None:
            names = [one.name for one in ordered]
            ordered.insert(names.index(member.hint.place.after) + 1, member)
    return ordered


class _Version:
    """Makes the structures of one version."""

    def __init__(self, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible

    def shape(self, hint: _Hint) -> Field:
        """A field without a name that has the type."""
        kind, parts = hint.marker(Kind), hint.marker(Parts)
        if kind is not None:
            return Field(name="", kind=kind.name, nullable=hint.nullable)
        if parts is not None:
            return self._of(self._object(hint.base, parts.hints, parts.none, hint.nullable))
        if get_origin(hint.base) is tuple:
            first, *others = get_args(hint.base)
            if others == [...]:
                element = self.shape(_unfolded(first))
                return attrs.evolve(element, is_array=True, nullable=hint.nullable)
            members = [_element(at, _unfolded(one)) for at, one in enumerate((first, *others))]
            return self._of(self._structure("tuple", members, _make(tuple, members)))
        return self._of(self._object(hint.base, _hints(hint.base), None, hint.nullable))

    @staticmethod
    def _of(structure: Structure) -> Field:
        return Field(name="", kind=STRUCTURE, structure=structure)

    def _object(self, cls: Any, hints: Mapping[str, Any], none: tuple[Any, ...] | None, nullable: bool) -> Structure:
        members = _declared(cls, hints)
        if nullable and none is None:
            none = (-1,) * len(attrs.fields(cls))
        names = [one.name for one in attrs.fields(cls)]
        return self._structure(cls.__name__, members, _make(cls, members, names, none if nullable else None))

    def _structure(self, name: str, declared: Sequence[_Member], make: Make | None, depth: int = 0) -> Structure:
        """Of those members that the version has.  They are in the same nests up to the depth."""
        members = [one for one in declared if one.hint.place.includes(self._version)]
        fields: list[Field] = []
        done: set[Nest] = set()
        for member in members:
            nests = member.hint.nests[depth:]
            if not nests:
                fields.append(self._field(member))
            elif nests[0] not in done and nests[0].place.includes(self._version):
                done.add(nests[0])
                inner = [one for one in members if nests[0] in one.hint.nests]
                fields.append(self._nest(nests[0], inner, depth + 1))
        tagged = [field for field in fields if field.tag is not None]
        assert self._flexible or not tagged, f"{name}: version {self._version} has no tags"
        demands = [
            (one.name, one.default, one.hint.place.needs.format(version=self._version))
            for one in declared
            if one not in members and one.hint.place.needs is not None
        ]
        return Structure(
            name,
            self._flexible,
            tuple(field for field in fields if field.tag is None),
            tuple(sorted(tagged, key=lambda field: field.tag or 0)),
            make,
            tuple(demands),
        )

    def _nest(self, nest: Nest, members: Sequence[_Member], depth: int) -> Field:
        outermost = members[0].hint.nests[0]
        return Field(
            name=nest.name,
            kind=STRUCTURE,
            structure=self._structure(nest.name, members, None, depth),
            is_array=nest.is_array,
            tag=nest.place.tag,
            form=Form.ONLY if nest.is_array else Form.NEST,
            unless=nest.unless,
            unknown={
                one.attribute: one.hint.empty(unknown=True) if outermost.unless is None else one.unknown
                for one in members
                if one.attribute is not None
            },
        )

    def _field(self, member: _Member) -> Field:
        hint, groups = member.hint, member.hint.marker(ByTopic)
        if groups is not None:
            return self._groups(member, groups)
        via = hint.marker(Via)
        wire = hint if via is None else _unfolded(via.wire)
        default = member.absent
        if via is not None and via.beside:
            default = wire.empty(unknown=False)
        return attrs.evolve(
            self.shape(wire),
            name=hint.marker(str) or member.name,
            tag=hint.place.tag,
            form=Form.INLINE if INLINE in wire.markers else Form.VALUE,
            attribute=member.attribute,
            default=default,
            via=via,
            varies=VARIES in hint.markers,
        )

    def _groups(self, member: _Member, groups: ByTopic) -> Field:
        (element, _) = get_args(member.hint.base)
        members = _declared(element, _hints(element))
        shared = [one for one in members if SHARED in one.hint.markers]
        rest = [one for one in members if SHARED not in one.hint.markers]
        names = [one.name for one in attrs.fields(element)]
        inner = self._structure(element.__name__, rest, _make(element, members, names))
        outer = self._structure(groups.name, shared, None)
        array = attrs.evolve(self._of(inner), name=groups.members, is_array=True, attribute=member.attribute)
        return Field(
            name=groups.name,
            kind=STRUCTURE,
            structure=attrs.evolve(outer, members=(*outer.members, array)),
            is_array=True,
            form=Form.GROUPS,
            attribute=member.attribute,
            unknown={one.name: one.unknown for one in shared},
        )


def _make(
    type: Any, members: Sequence[_Member], names: Sequence[str] | None = None, none: tuple[Any, ...] | None = None
) -> Make:
    absent: dict[str, Any] = {}
    for member in members:
        if member.attribute is not None and (member.name == member.attribute or member.attribute not in absent):
            absent[member.attribute] = member.absent
    return Make(type, absent if names is None else {name: absent[name] for name in names if name in absent}, none)
