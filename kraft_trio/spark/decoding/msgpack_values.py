"""Turns MessagePack values into columns: maps, and what `kraft_trio.application.serde.MsgpackSerde` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

import msgpack
import pyarrow as pa
import pyarrow.compute

C = TypeVar("C", list[Any], dict[Any, Any])

WHOLE_VALUE: Final = "value"
"""The column for the whole value; every other column is an entry of the map."""
VALUE_TAG: Final = "value_tag"
VALUE_VERSION: Final = "value_version"
"""The columns for a class's tag and version in values from MsgpackSerde; other columns are the class's fields."""

MOST_ITEMS: Final = 1024 * 1024
"""Limit for the items of all lists and maps in a value: an empty map of one byte takes a hundred in Python."""
_SMALL_BYTES: Final = 512 * 1024
"""Values of this size together are decoded at a time.  A smaller value cannot exceed MOST_ITEMS."""

_TIMESTAMPS_AS_DATETIMES: Final = 3
_SHOWN_CHARACTERS: Final = 60

_PYTHON_TYPES: Final = (
    (pa.types.is_boolean, (bool,)),
    (pa.types.is_integer, (int,)),
    (pa.types.is_floating, (int, float)),
    (pa.types.is_decimal, (int,)),
    (pa.types.is_timestamp, (datetime,)),
    (pa.types.is_string, (str,)),
    (pa.types.is_binary, (bytes,)),
)
"""The Python type of a value for each column type; MessagePack has nothing for other types."""


DOES_NOT_FIT: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""The exceptions for a value that does not fit a column's type."""


def msgpack_columns(values: pa.Array, fields: Sequence[pa.Field]) -> tuple[list[pa.Array], Mapping[int, str]]:
    """A column for each field, and the problem of each value by its place.  Parts that do not fit are null.

    A null value and a missing entry give nulls.  Entries without a field are skipped.
    """
    problems: dict[int, str] = {}
    parts: list[list[pa.Array]] = []
    for start, end in _parts(values):
        columns, found = _columns_of(values[start:end], fields)
        parts.append(columns)
        problems |= {start + at: problem for at, problem in found.items()}
    if len(parts) == 1:
        return parts[0], problems
    return [pa.concat_arrays(of_field) for of_field in zip(*parts, strict=True)], problems


def _parts(values: pa.Array) -> Iterator[tuple[int, int]]:
    """Ranges of about _SMALL_BYTES of values; at least one range, the ends exclusive."""
    start = size = 0
    lengths = pa.compute.fill_null(pa.compute.binary_length(values), 0).to_pylist()
    for at, length in enumerate(lengths):
        if size + length > _SMALL_BYTES and at > start:
            yield start, at
            start, size = at, 0
        size += length
    yield start, len(lengths)


def _columns_of(values: pa.Array, fields: Sequence[pa.Field]) -> tuple[list[pa.Array], Mapping[int, str]]:
    problems: dict[int, str] = {}
    decoded = [_decoded(value, at, problems) for at, value in enumerate(values.to_pylist())]
    if any(field.name != WHOLE_VALUE for field in fields):
        maps = [_map(value, at, problems) for at, value in enumerate(decoded)]
    columns = []
    for field in fields:
        found = decoded if field.name == WHOLE_VALUE else [entries.get(field.name) for entries in maps]
        columns.append(_column(found, field, problems))
    return columns, problems


class _Items:
    """Counts the items of a value's lists and maps as they are decoded."""

    def __init__(self) -> None:
        self._left = MOST_ITEMS

    def __call__(self, found: C) -> C:
        self._left -= 1 + len(found)
        if self._left < 0:
            raise ValueError(f"more than {MOST_ITEMS} items in lists and maps")
        return found


def unpack(value: bytes) -> Any:
    """Decode a value, timestamps as datetimes.

    Raises ValueError if it is invalid, has more than MOST_ITEMS items, or does not fit Python's types.
    """
    limits: dict[str, Any] = {}
    if len(value) > _SMALL_BYTES:
        count = _Items()
        limits = {
            "list_hook": count,
            "object_hook": count,
            "max_array_len": MOST_ITEMS,
            "max_map_len": MOST_ITEMS,
        }
    try:
        return msgpack.unpackb(value, timestamp=_TIMESTAMPS_AS_DATETIMES, strict_map_key=False, **limits)
    except (ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"is not MessagePack: {error or type(error).__name__}") from error
    except (TypeError, OverflowError) as error:  # A list as a map's key; a timestamp beyond the year 9999.
        raise ValueError(f"has no place in Python: {error}") from error


def _decoded(value: bytes | None, at: int, problems: dict[int, str]) -> Any:
    if value is None:
        return None
    try:
        return unpack(value)
    except ValueError as error:
        problems[at] = f"value: {_shown(value)} {error}"
        return None


def _map(value: Any, at: int, problems: dict[int, str]) -> Mapping[Any, Any]:
    match value:
        case dict():
            return value
        case [str(tag), int(version), dict(fields)]:
            return {**fields, VALUE_TAG: tag, VALUE_VERSION: version}
        case None:
            return {}
    problems.setdefault(at, f"value: {_shown(value)}, expected a map, or [tag, version, map]")
    return {}


def column_of(found: list[Any], type: pa.DataType) -> pa.Array:
    """Decoded values as a column.  Raises one of DOES_NOT_FIT for a value of another type."""
    return pa.array(map(_fitting(type), found), type)


def _column(found: list[Any], field: pa.Field, problems: dict[int, str]) -> pa.Array:
    fit = _fitting(field.type)
    try:
        return column_of(found, field.type)
    except DOES_NOT_FIT:
        pass
    fitting: list[Any] = []
    for at, value in enumerate(found):
        try:
            pa.array([fit(value)], field.type)
        except DOES_NOT_FIT:
            problems.setdefault(at, f"value: column {field.name}: {_shown(value)}, expected {field.type}")
            fitting.append(None)
        else:
            fitting.append(value)
    return pa.array(map(fit, fitting), field.type)


def _fitting(type: pa.DataType) -> Callable[[Any], Any]:
    """Convert a decoded value for Arrow, which represents maps as pairs.

    Raises TypeError where Arrow would convert silently, such as 1.5 to 1 or a string to bytes.
    """
    if pa.types.is_map(type):
        of_key, of_item = _fitting(type.key_type), _fitting(type.item_type)
        return lambda value: [(of_key(k), of_item(v)) for k, v in value.items()] if isinstance(value, dict) else value
    if pa.types.is_list(type):
        of_element = _fitting(type.value_type)
        return lambda value: [of_element(one) for one in value] if isinstance(value, list) else value
    if pa.types.is_struct(type):
        of_fields = {type.field(at).name: _fitting(type.field(at).type) for at in range(type.num_fields)}
        return lambda value: (
            {name: fit(value.get(name)) for name, fit in of_fields.items()} if isinstance(value, dict) else value
        )
    return partial(_instance, next((wanted for is_type, wanted in _PYTHON_TYPES if is_type(type)), ()))


def _instance(wanted: tuple[type, ...], value: Any) -> Any:
    if value is None or (isinstance(value, wanted) and isinstance(value, bool) == (bool in wanted)):
        return value
    raise TypeError


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = f"{type(value).__name__} of very many in each other"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
