"""kio's generated message classes, read as schemas: which fields a message has, in which order, of which type.

kio holds one dataclass for each message and version.  Reading and writing bytes is `schema_reader` and
`schema_writer`; both turn messages into plain `Fields`, dictionaries by kio's field names.  They replace kio's own
reader, which trusts a declared array length (a frame of ten bytes makes the process abort on a failed allocation) and
refuses a tagged field that it does not know, where KIP-482 wants it skipped.
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

Durations and timestamps are int milliseconds, UUIDs are never None (zero stands for none), nested structures are
Fields, arrays are lists.
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
"""The struct format of each type of fixed size."""

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
    """One field of a structure: `kind` is a Kafka type name or ENTITY, whose shape is then in `entity`."""

    name: str
    kind: str
    entity: EntityShape | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any
    """Of a tagged field: the value that is not sent.  None otherwise."""

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and self.kind in FIXED_FORMATS


@attrs.frozen(eq=False)
class EntityShape:
    """One structure in one version; `tagged` is in the order of the tags."""

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
    """A default of kio's as `Fields` hold it."""
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
