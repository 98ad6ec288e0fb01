"""The schemas of messages: their fields in order, with the versions that have them.

Each API has a schema as text, with a part for its requests and one for its responses.  A line has a field:

    topics: [Topic]?1+ 0-9
        name: string
    leader: Leader 10+ tag 1
        leader_id: int32 = -1

It names the type, in brackets for an array, and in capitals for a structure, whose fields follow.  `?` allows null, and
`?1+` does so from version 1 on.  Then come the versions that have the field, by default all; the tag of a tagged field
(KIP-482); and the value of a field that is not sent, if that is not zero or empty.  Tags from 10000 on are our own.

`schema_reader` and `schema_writer` use the schemas to convert between bytes and `Fields`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

import attrs

from kraft_trio.wire.error_codes import ErrorCode

Fields: TypeAlias = dict[str, Any]
"""One message or nested structure: field names with plain values.

Durations and timestamps are int milliseconds, nested structures are Fields, and arrays are lists.  A UUID is never
None; the zero UUID means an absent one.
"""

ENTITY: Final = "entity"

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "float64": "d",
    "error_code": "h",
    "uuid": "16s",
}
"""The `struct` format of each type that has a fixed size."""

_EMPTY: Final[dict[str, Any]] = {
    "bool": False,
    "error_code": ErrorCode.none,
    "uuid": UUID(int=0),
    "string": "",
    "records": b"",
    "bytes": b"",
}

_VERSIONS: Final = r"\d+\+|\d+-\d+|\d+"
_LINE: Final = re.compile(
    rf"( *)(\w+): (\[)?(\w+)\]?(?:(\?)({_VERSIONS})?)?(?: ({_VERSIONS}))?(?: tag (\d+))?(?: = (null|-?\d+))?"
)
_Line: TypeAlias = tuple[int, str, bool, str, bool, str, str, str, str]


@attrs.frozen(eq=False)
class FieldShape:
    """One field of a structure.  `kind` is a Kafka type name, or ENTITY with the nested shape in `entity`."""

    name: str
    kind: str
    entity: EntityShape | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any
    """The value of a tagged field that is not sent; of another field, its value in a structure that is not sent."""

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and self.kind in FIXED_FORMATS


@attrs.frozen(eq=False)
class EntityShape:
    """One structure in one version.  `tagged` is sorted by tag."""

    name: str
    flexible: bool
    fields: tuple[FieldShape, ...]
    tagged: tuple[FieldShape, ...]


@cache
def message_shape(
    schema: str, api_name: str, kind: Literal["request", "response"], version: int, *, flexible: bool
) -> EntityShape:
    """The shape of one version of an API's requests or responses.  `flexible` versions have compact types (KIP-482)."""
    _, requests, responses = re.split(r"^(?:request|response)\n", schema, flags=re.MULTILINE)
    fields = requests if kind == "request" else responses
    return structure_shape(fields, api_name + kind.capitalize(), version, flexible=flexible)


def structure_shape(fields: str, name: str, version: int, *, flexible: bool) -> EntityShape:
    """The shape of one version of a structure, whose fields are the lines of `fields`."""
    return _structure(name, [_line(text) for text in fields.splitlines()], version, flexible)


def _line(text: str) -> _Line:
    match = _LINE.fullmatch(text)
    assert match is not None, f"{text!r} is no line of a schema"
    indent, name, bracket, kind, mark, null_versions, versions, tag, default = match.groups("")
    return len(indent), name, bool(bracket), kind, bool(mark), null_versions, versions, tag, default


def _structure(name: str, lines: Sequence[_Line], version: int, flexible: bool) -> EntityShape:
    fields: list[FieldShape] = []
    starts = [at for at, line in enumerate(lines) if line[0] == lines[0][0]]
    for start, stop in pairwise([*starts, len(lines)]):
        if _includes(lines[start][6], version):
            fields.append(_field(lines[start], lines[start + 1 : stop], version, flexible))
    tagged = [field for field in fields if field.tag is not None]
    return EntityShape(
        name,
        flexible,
        tuple(field for field in fields if field.tag is None),
        tuple(sorted(tagged, key=lambda field: field.tag or 0)),
    )


def _field(line: _Line, inner: Sequence[_Line], version: int, flexible: bool) -> FieldShape:
    _, name, is_array, kind, has_mark, null_versions, _, tag, default_text = line
    entity = _structure(kind, inner, version, flexible) if inner else None
    assert (entity is not None) == kind[0].isupper(), f"{name}: {kind}"
    nullable = has_mark and _includes(null_versions, version)
    assert entity is None or is_array or not nullable, f"{name}: nullable structures (KIP-893) are not supported"
    default: Any
    if default_text:
        default = None if default_text == "null" else int(default_text)
    elif is_array:
        default = []
    elif entity is not None:
        default = {field.name: field.default for field in entity.fields}
    else:
        default = _EMPTY.get(kind, 0)
    return FieldShape(
        name, ENTITY if entity is not None else kind, entity, is_array, nullable, int(tag) if tag else None, default
    )


def _includes(versions: str, version: int) -> bool:
    """Whether `0-9`, `3`, `10+`, or an empty text for all versions, includes the version."""
    first, dash, last = versions.rstrip("+").partition("-")
    if versions.endswith("+") or not versions:
        return version >= int(first or 0)
    return int(first) <= version <= int(last if dash else first)
