"""Columns of metadata: named values of simple types, derived from the classes that declare the records.

The names are those of the attributes.  UUIDs are text as Kafka prints them, and integers of up to 32 bits are `int32`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.names import name_of
from kraft_trio.protocol.types import directory_id_to_text
from kraft_trio.wire.metadata_frame import MetadataFrame
from kraft_trio.wire.metadata_schemas import SCHEMAS, ConfigRecord, RecordSchema, UserScramCredentialRecord
from kraft_trio.wire.schema import Field, Structure

BOOL: Final = "bool"
INT32: Final = "int32"
INT64: Final = "int64"
FLOAT64: Final = "float64"
TEXT: Final = "text"
BINARY: Final = "binary"
TIME_MS: Final = "time_ms"
"""Milliseconds since 1970, UTC."""
STRUCT: Final = "struct"

HIDDEN: Final = "[hidden]"
"""What is shown instead of a password, as Kafka's tools do."""

_KINDS: Final[Mapping[str, str]] = {
    "bool": BOOL,
    "int8": INT32,
    "int16": INT32,
    "uint16": INT32,
    "int32": INT32,
    "int64": INT64,
    "float64": FLOAT64,
    "uuid": TEXT,
    "string": TEXT,
    "bytes": BINARY,
}

_SECRET_FIELDS: Final[Mapping[type, frozenset[str]]] = {
    UserScramCredentialRecord: frozenset({"salt", "stored_key", "server_key"})
}
_MAY_HAVE_SECRETS: Final = frozenset({*_SECRET_FIELDS, ConfigRecord})
_SECRET_CONFIGS: Final = re.compile(
    r"(password|passphrase|secret|token|credentials?|(secret|master|private|access|api)[._-]?key|sasl\.jaas\.config"
    r"|ssl\.keystore\.key|ssl\.keystore\.certificate\.chain|ssl\.truststore\.certificates)$",
    re.IGNORECASE,
)
"""Names of the configurations whose type is PASSWORD in Kafka, also with a listener's prefix, and names by which a
plugin's password may go: Kafka does not know the types of those."""


@attrs.frozen
class ValueType:
    """The type of a column or of a field in a struct."""

    kind: str
    is_array: bool = False
    fields: tuple[tuple[str, ValueType], ...] = ()
    """Of a struct."""


@attrs.frozen
class Column:
    """One column.  `of` makes its value from a record: None, a plain value, a list, or a dict for a struct."""

    name: str
    type: ValueType
    of: Callable[[Any], Any]


def columns_of(schema: RecordSchema, names: Mapping[str, Mapping[int, str]] | None = None) -> tuple[Column, ...]:
    """A column for each field of the record's newest version, without secrets.

    `names` has the names of numbers by field.  Fields that end in `_timestamp` are times.
    """
    structure = schema.structure(schema.max_version)
    secret = _SECRET_FIELDS.get(schema.record, frozenset())
    fields = [field for field in structure.all_fields if field.name not in secret]
    columns = tuple(_column(field, (names or {}).get(field.name)) for field in fields)
    if schema.record is ConfigRecord:
        columns = tuple(attrs.evolve(one, of=_config_value) if one.name == "value" else one for one in columns)
    return columns


def with_lists(columns: Iterable[Column], names: Collection[str]) -> tuple[Column, ...]:
    """The columns; those of these names have an empty list instead of null, as Kafka takes it."""
    return tuple(attrs.evolve(one, of=_or_empty(one.of)) if one.name in names else one for one in columns)


def _or_empty(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda record: of(record) or []


def schema_of(record: type) -> RecordSchema:
    """The schema of a record's class.  Raises StopIteration for another class."""
    return next(schema for schema in SCHEMAS.values() if schema.record is record)


def why_undecodable(frame: MetadataFrame, error: ProtocolError) -> tuple[str, bytes | None]:
    """Why a record cannot be decoded, and the bytes to show.  Neither quotes a record that may have a password."""
    schema = SCHEMAS.get(frame.api_key)
    if schema is None or schema.record not in _MAY_HAVE_SECRETS:
        return f"{frame.name}: {error}", frame.message
    return (
        f"{frame.name}: version {frame.version} of {len(frame.message)} bytes does not follow its schema, and is not "
        "shown, because it may have a password"
    ), None


def is_secret_config(name: str) -> bool:
    """Whether the value of a configuration of that name is a password or a key."""
    return _SECRET_CONFIGS.search(name) is not None


def _config_value(record: ConfigRecord) -> str | None:
    return HIDDEN if record.value is not None and is_secret_config(record.name) else record.value


def _column(field: Field, names: Mapping[int, str] | None) -> Column:
    name = field.attribute or field.name
    if names is not None:
        return Column(field.name, ValueType(TEXT), lambda record: name_of(names, getattr(record, name)))
    if field.name.endswith("_timestamp"):
        return Column(field.name, ValueType(TIME_MS), attrgetter(name))
    convert = _converter(field)
    if convert is None:
        return Column(field.name, _type(field), attrgetter(name))
    return Column(field.name, _type(field), lambda record: convert(getattr(record, name)))


def _type(field: Field) -> ValueType:
    if field.structure is not None:
        fields = tuple((one.name, _type(one)) for one in field.structure.all_fields)
        return ValueType(STRUCT, field.is_array, fields)
    return ValueType(_KINDS[field.kind], field.is_array)


def _converter(field: Field) -> Callable[[Any], Any] | None:
    """What makes a plain value of the field's, or None if it is one already."""
    one = _element_converter(field)
    if not field.is_array:
        return one
    if one is None:
        return lambda values: None if values is None else list(values)
    return lambda values: None if values is None else [one(value) for value in values]


def _element_converter(field: Field) -> Callable[[Any], Any] | None:
    if field.structure is not None:
        return _struct_converter(field.structure)
    return _uuid_text if field.kind == "uuid" else None


def _struct_converter(structure: Structure) -> Callable[[Any], dict[str, Any]]:
    converters = [(one.name, one.attribute or one.name, _converter(one)) for one in structure.all_fields]

    def convert(value: Any) -> dict[str, Any]:
        return {
            name: getattr(value, attribute) if inner is None else inner(getattr(value, attribute))
            for name, attribute, inner in converters
        }

    return convert


def _uuid_text(value: UUID) -> str:
    return _text_of(value.int)


@lru_cache(maxsize=1024)
def _text_of(number: int) -> str:
    """By the number, because a UUID is hashed by slow code.  The directories of brokers are few, and named often."""
    return directory_id_to_text(UUID(int=number))
