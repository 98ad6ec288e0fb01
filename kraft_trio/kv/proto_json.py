"""Messages as the JSON of etcd's gateway, a dialect of protobuf's JSON mapping.

Bytes are base64, 64-bit numbers are text, enums are names, and a field with its default is left out.  Numbers may come
as numbers, enums as numbers, and names in camel case.
"""

from __future__ import annotations

import binascii
import functools
import json
import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, TypeVar

from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.shapes import Field, Kind, cached_by_class, fields_of

M = TypeVar("M")

WHITESPACE: Final = " \t\r\n"
_decoder = json.JSONDecoder()
_encode = json.JSONEncoder(separators=(",", ":")).encode


def bad_json(reason: str) -> KvError:
    """The error for a request that cannot be read."""
    return KvError(Code.INVALID_ARGUMENT, reason)


def parse(cls: type[M], text: str) -> M:
    """Read one message; an empty text is the empty message, and what follows the message does not count.

    Raises KvError.
    """
    try:
        value, _ = _decoder.raw_decode(text.lstrip(WHITESPACE) or "{}")
    except (ValueError, RecursionError) as error:
        raise bad_json(f"no JSON: {error}") from None
    return structure(cls, value)


def parse_first(cls: type[M], text: str) -> tuple[M, str]:
    """Read the first message of a text, and return it with what follows it.  Raises KvError."""
    text = text.lstrip(WHITESPACE)
    try:
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise bad_json(f"no JSON: {error}") from None
    return structure(cls, value), text[end:].lstrip(WHITESPACE)


class ObjectEnds:
    """Counts the objects of JSON that end in a text which arrives in parts.  Looks at each character once."""

    _MARKS: Final = re.compile(r'\\(?:.|\Z)|[{}"]', re.DOTALL)

    def __init__(self) -> None:
        self._depth = 0
        self._is_in_text = False
        self._cut = ""
        """A backslash whose character is in the next part."""

    def count(self, part: str) -> int:
        """Take the next part, and return how many objects end in it that are in no other object."""
        ended = 0
        mark = ""
        for match in self._MARKS.finditer(self._cut + part):
            mark = match[0]
            if mark == '"':
                self._is_in_text = not self._is_in_text
            elif self._is_in_text:
                continue
            elif mark == "{":
                self._depth += 1
            elif mark == "}" and self._depth:
                self._depth -= 1
                ended += not self._depth
        self._cut = mark if mark == "\\" else ""
        return ended


def structure(cls: type[M], value: object) -> M:
    """Make a message from decoded JSON.  Raises KvError."""
    try:
        return _structure(cls, value)
    except RecursionError:
        raise bad_json(f"{cls.__name__}: messages within one another, too many levels") from None


def _structure(cls: type[M], value: object) -> M:
    if not isinstance(value, dict):
        raise bad_json(f"{cls.__name__}: {_shown(value)} given, an object expected")
    readers = _readers(cls)
    found = {}
    for name, part in value.items():
        reader = readers.get(name)
        if reader is not None and part is not None:
            field, read = reader
            found[field.name] = read(part)
    return cls(**found)


def dumps(message: object) -> bytes:
    """A message as JSON."""
    return _text(message).encode()


def _text(message: object) -> str:
    parts = []
    for name, start, default, write in _writers(type(message)):
        value = getattr(message, name)
        if value != default:
            parts.append(start + write(value))
    return "{" + ",".join(parts) + "}"


def to_json(value: object) -> bytes:
    return _encode(value).encode()


@cached_by_class
def _readers(cls: Any) -> dict[str, tuple[Field, Callable[[Any], Any]]]:
    readers: dict[str, tuple[Field, Callable[[Any], Any]]] = {}
    for field in fields_of(cls):
        read = functools.partial(_READ[field.kind], field)
        if field.is_repeated:
            read = functools.partial(_read_repeated, field, read)
        readers[field.json_name] = readers[_camel_case(field.json_name)] = (field, read)
    return readers


@cached_by_class
def _writers(cls: Any) -> tuple[tuple[str, str, Any, Callable[[Any], str]], ...]:
    """For each field its name, what begins it in JSON, its default, and what writes a value."""
    writers = []
    for field in fields_of(cls):
        write = _WRITE[field.kind]
        if field.is_repeated:
            write = functools.partial(_write_repeated, write)
        writers.append((field.name, _encode(field.json_name) + ":", field.default, write))
    return tuple(writers)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _shown(value: object) -> str:
    return json.dumps(value)[:40]


def _wrong(field: Field, value: object, expected: str) -> KvError:
    return bad_json(f"{field.json_name}: {_shown(value)} given, {expected} expected")


def _read_repeated(field: Field, read: Callable[[Any], Any], value: object) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _wrong(field, value, "an array")
    return tuple(map(read, value))


def _read_integer(field: Field, value: object) -> int:
    return _number(field, value, -(2**63), 2**63)


def _read_unsigned(field: Field, value: object) -> int:
    return _number(field, value, 0, 2**64)


def _number(field: Field, value: object, low: int, high: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        try:
            value = int(value.encode("ascii"))
        except ValueError:
            raise _wrong(field, value, "a number") from None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
        raise _wrong(field, value, "a number of 64 bits")
    return value


def _read_bytes(field: Field, value: object) -> bytes:
    if isinstance(value, str):
        try:
            return binascii.a2b_base64(value, strict_mode=True)
        except (binascii.Error, ValueError):
            pass
    raise _wrong(field, value, "base64")


def _read_truth(field: Field, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(field, value, "true or false")
    return value


def _read_text(field: Field, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(field, value, "a text")
    return value


def _read_enum(field: Field, value: object) -> IntEnum:
    cls: type[IntEnum] = field.cls
    try:
        return cls[value] if isinstance(value, str) else cls(_read_integer(field, value))
    except (KeyError, ValueError):
        raise _wrong(field, value, f"one of {', '.join(cls.__members__)}") from None


def _read_message(field: Field, value: object) -> object:
    return _structure(field.cls, value)


_READ: Final[dict[Kind, Callable[[Field, Any], Any]]] = {
    Kind.INTEGER: _read_integer,
    Kind.UNSIGNED: _read_unsigned,
    Kind.BYTES: _read_bytes,
    Kind.TRUTH: _read_truth,
    Kind.TEXT: _read_text,
    Kind.ENUM: _read_enum,
    Kind.MESSAGE: _read_message,
}


def _write_repeated(write: Callable[[Any], str], values: tuple[Any, ...]) -> str:
    return "[" + ",".join(map(write, values)) + "]"


def _write_number(value: int) -> str:
    return f'"{value:d}"'


def _write_bytes(value: bytes) -> str:
    return '"' + binascii.b2a_base64(value, newline=False).decode("ascii") + '"'


def _write_name(value: IntEnum) -> str:
    return _encode(value.name)


_WRITE: Final[dict[Kind, Callable[[Any], str]]] = {
    Kind.INTEGER: _write_number,
    Kind.UNSIGNED: _write_number,
    Kind.BYTES: _write_bytes,
    Kind.TRUTH: _encode,
    Kind.TEXT: _encode,
    Kind.ENUM: _write_name,
    Kind.MESSAGE: _text,
}
