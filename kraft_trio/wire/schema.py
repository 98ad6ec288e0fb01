"""The schemas of messages: their fields in order, with types, taken from kio's generated classes.

kio has one dataclass for each message and version.  `schema_reader` and `schema_writer` use the schemas to convert
between bytes and `Fields`, which are dictionaries by kio's field names.

They replace kio's own reader for two reasons.  It trusts a declared array length, so that a frame of ten bytes can make
the process abort on a failed allocation.  And it refuses unknown tagged fields, which KIP-482 requires it to skip.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin
from uuid import UUID

import attrs

from kraft_trio.wire.error_codes import ErrorCode

Fields: TypeAlias = dict[str, Any]
"""One message or nested structure: kio's field names with plain values.

Durations and timestamps are int milliseconds, nested structures are Fields, and arrays are lists.  A UUID is never
None; the zero UUID stands for an absent one.
"""

ENTITY: Final = "entity"

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
"""The `struct` format of each type that has a fixed size."""

_IMPLICIT_DEFAULTS: Final[dict[str, Any]] = {
    "bool": False,
    "error_code": ErrorCode.none,
    "uuid": UUID(int=0),
    "string": "",
    "bytes": b"",
    "records": b"",
}


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
    """The value of a tagged field that is not sent.  None for an untagged field."""

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
def message_shape(package: str, message: str, kind: Literal["request", "response"], version: int) -> EntityShape:
    """The shape of a message in one version: `message_shape("vote", "Vote", "request", 2)`."""
    module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
    return entity_shape(getattr(module, message + kind.capitalize()))


@cache
def entity_shape(entity_type: Any) -> EntityShape:
    """The shape of one of kio's message classes."""
    shapes = [_field_shape(field) for field in dataclasses.fields(entity_type)]
    return EntityShape(
        name=entity_type.__name__,
        flexible=entity_type.__flexible__,
        fields=tuple(shape for shape in shapes if shape.tag is None),
        tagged=tuple(sorted((shape for shape in shapes if shape.tag is not None), key=lambda shape: shape.tag or 0)),
    )


def _field_shape(field: dataclasses.Field[Any]) -> FieldShape:
    inner, nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner = get_args(inner)[0]
    entity: EntityShape | None = entity_shape(inner) if dataclasses.is_dataclass(inner) else None  # type: ignore[arg-type]
    assert entity is None or is_array or not nullable, f"{field.name}: nullable structures (KIP-893) are not supported"
    kind = ENTITY if entity is not None else field.metadata["kafka_type"]
    tag = field.metadata.get("tag")
    default = None if tag is None else _default(field, kind, entity, is_array)
    return FieldShape(field.name, kind, entity, is_array, nullable, tag, default)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    (inner,) = (part for part in get_args(annotation) if part is not type(None))
    return inner, True


def _default(field: dataclasses.Field[Any], kind: str, entity: EntityShape | None, is_array: bool) -> Any:
    if field.default is not dataclasses.MISSING:
        return _plain(field.default, kind)
    if is_array:
        return []
    if entity is not None:
        return {shape.name: _IMPLICIT_DEFAULTS.get(shape.kind, 0) for shape in entity.fields}
    return _IMPLICIT_DEFAULTS.get(kind, 0)


def _plain(value: Any, kind: str) -> Any:
    """One of kio's defaults in the form that `Fields` use."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name), field.metadata.get("kafka_type", ENTITY))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, tuple):
        return [_plain(item, kind) for item in value]
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if value is None and kind == "uuid":
        return UUID(int=0)
    if value is None and kind == "datetime_i64":
        return -1
    return value
