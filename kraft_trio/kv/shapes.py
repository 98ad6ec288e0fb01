"""The fields of a message class, as its annotations give them, for the codecs that go through them."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any, Final, TypeVar

import attrs

from kraft_trio.kv.requests import JSON_NAME, UNSIGNED

T = TypeVar("T")

NOT_IN_JSON: Final = "of"


class Kind(Enum):
    """How a value is encoded.  Every number is 64 bits wide."""

    INTEGER = int
    UNSIGNED = "unsigned"
    BYTES = bytes
    TRUTH = bool
    TEXT = str
    ENUM = IntEnum
    MESSAGE = object


def cached_by_class(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Call the function once for each class."""
    return functools.cache(function)


@attrs.frozen
class Field:
    """One field; `cls` is the class of a message or an enum, and of each element if it is repeated."""

    name: str
    json_name: str
    kind: Kind
    cls: Any
    is_repeated: bool
    default: Any


@cached_by_class
def fields_of(cls: Any) -> tuple[Field, ...]:
    """The fields of a message class, in order."""
    hints = typing.get_type_hints(cls)
    return tuple(_field(one, hints[one.name]) for one in attrs.fields(cls) if one.name != NOT_IN_JSON)


def _field(attribute: attrs.Attribute[Any], hint: Any) -> Field:
    is_repeated = typing.get_origin(hint) is tuple
    if is_repeated:
        hint = typing.get_args(hint)[0]
    elif isinstance(hint, types.UnionType):
        [hint] = [one for one in typing.get_args(hint) if one is not type(None)]
    json_name = attribute.metadata.get(JSON_NAME, attribute.name)
    kind = Kind.UNSIGNED if UNSIGNED in attribute.metadata else _kind(hint)
    return Field(attribute.name, json_name, kind, hint, is_repeated, attribute.default)


def _kind(cls: Any) -> Kind:
    if attrs.has(cls):
        return Kind.MESSAGE
    return Kind.ENUM if issubclass(cls, IntEnum) else Kind(cls)
