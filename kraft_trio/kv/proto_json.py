"""Messages as the JSON of etcd's gateway, a dialect of protobuf's JSON mapping.

Bytes are base64, 64-bit numbers are text, enums are names, and a field with its default is left out.  Numbers may come
as numbers, enums as numbers, and names in camel case.  No field may come twice, nor two fields of which a message has
one at most.
"""

from __future__ import annotations

import binascii
import functools
import json
import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, Final, TypeGuard, TypeVar

from kraft_trio.kv.errors import REQUEST_TOO_LARGE, Code, KvError
from kraft_trio.kv.json_text import WHITESPACE, JsonNumber, JsonObject, decode_base64, decode_first, integer
from kraft_trio.kv.requests import ONE_OF
from kraft_trio.kv.shapes import Field, Kind, cached_by_class, fields_of

M = TypeVar("M")

MAX_ITEMS: Final = 20_000
"""Objects, arrays, fields and elements of a message.  A large transaction has 16 for each of its operations."""
CHUNK_CHARACTERS: Final = 128 * 1024
"""Size of the parts in which a large message is encoded."""
_encode = json.JSONEncoder(separators=(",", ":")).encode


def bad_json(reason: str) -> KvError:
    """The error for a request that cannot be read."""
    return KvError(Code.INVALID_ARGUMENT, reason)


def parse(cls: type[M], text: str) -> M:
    """Read one message; an empty text is the empty message, and what follows the message does not count.

    Raises KvError.
    """
    check_items(text)
    try:
        value, _ = decode_first(text.lstrip(WHITESPACE) or "{}")
    except (ValueError, RecursionError) as error:
        raise bad_json(f"no JSON: {error}") from None
    return structure(cls, value)


def parse_first(cls: type[M], text: str) -> tuple[M, str]:
    """Read the first message of a text, and return it with what follows it.  Raises KvError."""
    text = text.lstrip(WHITESPACE)
    try:
        value, end = decode_first(text)
    except (ValueError, RecursionError) as error:
        raise bad_json(f"no JSON: {error}") from None
    return structure(cls, value), text[end:].lstrip(WHITESPACE)


def check_items(text: str) -> None:
    """Refuse a text before it is decoded if it has more fields and elements than any message may have.

    Raises KvError.  Marks within texts count, too: what is read of a text is base64, which has none.
    """
    items = 0
    for start in range(0, len(text), CHUNK_CHARACTERS):
        end = start + CHUNK_CHARACTERS
        items += sum(text.count(mark, start, end) for mark in "{[,")
        if items > MAX_ITEMS:
            raise KvError(*REQUEST_TOO_LARGE)


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
    if isinstance(value, dict):
        value = JsonObject(value.items())
    if not isinstance(value, JsonObject):
        raise bad_json(f"{cls.__name__}: {_shown(value)} given, an object expected")
    readers, only_one = _readers(cls), ONE_OF.get(cls, frozenset())
    found: dict[str, Any] = {}
    seen: set[str] = set()
    chosen = None
    for name, part in value:
        reader = readers.get(name)
        if reader is None:
            continue
        field, read = reader
        if field.name in seen:
            raise bad_json(f"{cls.__name__}: {field.json_name} given twice")
        seen.add(field.name)
        if part is None:
            continue
        if field.name in only_one:
            if chosen is not None:
                raise bad_json(f"{cls.__name__}: both {chosen} and {field.json_name} given")
            chosen = field.json_name
        found[field.name] = read(part)
    return cls(**found)


def dumps(message: object) -> bytes:
    """A message as JSON."""
    return _text(message).encode()


def dump_chunks(message: object) -> Iterator[bytes]:
    """A message as JSON, in one chunk if it is small, else in several, so that others may run between them."""
    parts: list[str] = []
    size = 0
    for part in _parts(message):
        parts.append(part)
        size += len(part)
        if size >= CHUNK_CHARACTERS:
            yield "".join(parts).encode()
            parts, size = [], 0
    if parts:
        yield "".join(parts).encode()


def _parts(message: object) -> Iterator[str]:
    """A message as JSON in parts: each element of a list is one, or several."""
    cls: Any = type(message)
    if not _has_lists(cls):
        yield _text(message)
        return
    before = "{"
    for field, (name, start, default, write) in zip(fields_of(cls), _writers(cls), strict=True):
        value = getattr(message, name)
        if value == default:
            continue
        yield before + start
        before = ","
        if field.is_repeated:
            yield from _list_parts(field, value)
        elif field.kind is Kind.MESSAGE:
            yield from _parts(value)
        else:
            yield write(value)
    yield "{}" if before == "{" else "}"


def _list_parts(field: Field, values: tuple[Any, ...]) -> Iterator[str]:
    before = "["
    for value in values:
        yield before
        before = ","
        if field.kind is Kind.MESSAGE:
            yield from _parts(value)
        else:
            yield _WRITE[field.kind](value)
    yield "[]" if before == "[" else "]"


@cached_by_class
def _has_lists(cls: Any) -> bool:
    """Whether a message of that class may have any number of elements, itself or in another message."""
    return _finds_lists(cls, frozenset())


def _finds_lists(cls: Any, within: frozenset[Any]) -> bool:
    return cls not in within and any(
        field.is_repeated or (field.kind is Kind.MESSAGE and _finds_lists(field.cls, within | {cls}))
        for field in fields_of(cls)
    )


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
    if isinstance(value, JsonNumber):
        return value[:40]
    if isinstance(value, str):
        return json.dumps(value[:40])
    return (
        "an object" if isinstance(value, JsonObject) else "an array" if isinstance(value, list) else json.dumps(value)
    )


def _wrong(field: Field, value: object, expected: str) -> KvError:
    return bad_json(f"{field.json_name}: {_shown(value)} given, {expected} expected")


def _read_repeated(field: Field, read: Callable[[Any], Any], value: object) -> tuple[Any, ...]:
    if not isinstance(value, list) or isinstance(value, JsonObject):
        raise _wrong(field, value, "an array")
    if field.kind is Kind.ENUM:
        value = [one for one in value if not _is_unknown_name(field, one)]
    return tuple(map(read, value))


def _read_integer(field: Field, value: object) -> int:
    return _number(field, value, -(2**63), 2**63)


def _read_unsigned(field: Field, value: object) -> int:
    return _number(field, value, 0, 2**64)


def _number(field: Field, value: object, low: int, high: int) -> int:
    found = integer(value, low, high) if isinstance(value, str) else None
    if found is None:
        raise _wrong(field, value, "a number of 64 bits")
    return found


def _read_bytes(field: Field, value: object) -> bytes:
    found = decode_base64(value) if _is_text(value) else None
    if found is None:
        raise _wrong(field, value, "base64")
    return found


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and not isinstance(value, JsonNumber)


def _read_truth(field: Field, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(field, value, "true or false")
    return value


def _read_text(field: Field, value: object) -> str:
    if not _is_text(value):
        raise _wrong(field, value, "a text")
    return value


def _read_enum(field: Field, value: object) -> IntEnum:
    """A name that is not known means nothing, as in etcd: a newer client may know more of them."""
    cls: type[IntEnum] = field.cls
    if _is_unknown_name(field, value):
        default: IntEnum = field.default
        return default
    try:
        return cls[value] if _is_text(value) else cls(_number(field, value, -(2**31), 2**31))
    except ValueError:
        raise _wrong(field, value, f"one of {', '.join(cls.__members__)}") from None


def _is_unknown_name(field: Field, value: object) -> bool:
    return _is_text(value) and value not in field.cls.__members__


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
