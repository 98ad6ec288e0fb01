"""Commands as record bytes: a prefix, and a msgpack array with the command's code and its fields."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import attrs
import msgpack

from kraft_trio.errors import EncodeError, SerdeError
from kraft_trio.kv import requests
from kraft_trio.kv.budget import MAX_COMMAND_BYTES, MAX_COMMAND_ITEMS
from kraft_trio.kv.errors import REQUEST_TOO_LARGE, TOO_MANY_OPERATIONS, Code
from kraft_trio.kv.msgpack_items import has_more_items
from kraft_trio.kv.requests import Command
from kraft_trio.kv.shapes import Field, Kind, cached_by_class, fields_of

PREFIX: Final = b"kv\x01"
"""Tells commands from the records of others."""

_CLASSES: Final[dict[int, type[Any]]] = {
    1: requests.PutRequest,
    2: requests.DeleteRangeRequest,
    3: requests.TxnRequest,
    4: requests.CompactionRequest,
    5: requests.LeaseGrantRequest,
    6: requests.LeaseRevokeRequest,
    7: requests.LeaseKeepAliveRequest,
    8: requests.Advance,
    9: requests.AnnounceMember,
    10: requests.SetQuota,
    11: requests.AlarmRequest,
}
_CODES: Final = {cls: code for code, cls in _CLASSES.items()}


@attrs.frozen
class NoCommand:
    """A record that somebody else has written.  The store passes over it."""


@attrs.frozen
class TooLarge:
    """A command that is larger than any may be.  It is not decoded, and the store refuses it with that error."""

    error: tuple[Code, str]


class CommandSerde:
    """Encodes commands.  Bytes with the prefix that are no command stop the replica, which may be too old for them."""

    def encode(self, value: Command | NoCommand | TooLarge, /) -> bytes:
        code = _CODES.get(type(value))
        if code is None:
            raise EncodeError(f"value: {type(value).__name__} given, a command of the key-value store expected")
        try:
            packed: bytes = msgpack.packb([code, *_pack(type(value), value)], use_bin_type=True)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise EncodeError(f"{type(value).__name__}: {error}") from None
        if len(packed) > MAX_COMMAND_BYTES - len(PREFIX):
            raise EncodeError(
                f"{type(value).__name__}: {len(packed)} bytes given, at most {MAX_COMMAND_BYTES} expected"
            )
        return PREFIX + packed

    def decode(self, data: bytes, /) -> Command | NoCommand | TooLarge:
        if not data.startswith(PREFIX):
            return NoCommand()
        if len(data) > MAX_COMMAND_BYTES:
            return TooLarge(REQUEST_TOO_LARGE)
        if len(data) > MAX_COMMAND_ITEMS and has_more_items(data, len(PREFIX), MAX_COMMAND_ITEMS):
            return TooLarge(TOO_MANY_OPERATIONS)
        try:
            code, *parts = msgpack.unpackb(data[len(PREFIX) :], raw=False)
            command: Command = _unpack(_CLASSES[code], parts)
        except KeyError:
            raise SerdeError(f"command {code!r}: unknown; is this version of the store too old?") from None
        except (RecursionError, msgpack.StackError):
            # It is nested deeper than any command may be.  Whether it can be decoded depends on the replica.
            return TooLarge(TOO_MANY_OPERATIONS)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            # Some errors of msgpack have no text.
            raise SerdeError(f"no command of the key-value store: {str(error) or type(error).__name__}") from None
        return command


def _pack(cls: type[Any], message: object) -> list[Any]:
    """The fields, without those at the end that have their default.  Raises ValueError for what is not of its type."""
    if type(message) is not cls:
        raise ValueError(f"{type(message).__name__} given, {cls.__name__} expected")
    packed: list[Any] = []
    length = 0
    for name, default, pack in _packers(cls):
        value = getattr(message, name)
        packed.append(pack(value))
        if value != default:
            length = len(packed)
    return packed[:length]


def _unpack(cls: type[Any], parts: object) -> Any:
    unpackers = _unpackers(cls)
    if not isinstance(parts, list) or len(parts) > len(unpackers):
        raise ValueError(f"{cls.__name__}: not its fields")
    return cls(*[unpack(part) for unpack, part in zip(unpackers, parts, strict=False)])


@cached_by_class
def _packers(cls: Any) -> tuple[tuple[str, Any, Callable[[Any], Any]], ...]:
    return tuple((field.name, field.default, _packer(field)) for field in fields_of(cls))


def _packer(field: Field) -> Callable[[Any], Any]:
    if field.kind is Kind.MESSAGE:
        one = functools.partial(_pack, field.cls)
    else:
        one = functools.partial(_checked, field.cls, field.name)
    if field.is_repeated:
        return functools.partial(_pack_all, field.name, one)
    return functools.partial(_unless_none, one) if field.kind is Kind.MESSAGE else one


def _pack_all(name: str, one: Callable[[Any], Any], values: object) -> list[Any]:
    return list(map(one, _checked(tuple, name, values)))


@cached_by_class
def _unpackers(cls: Any) -> tuple[Callable[[Any], Any], ...]:
    return tuple(map(_unpacker, fields_of(cls)))


def _unpacker(field: Field) -> Callable[[Any], Any]:
    if field.kind is Kind.MESSAGE:
        one = functools.partial(_unpack, field.cls)
    elif field.kind is Kind.ENUM:
        one = field.cls
    else:
        one = functools.partial(_checked, field.cls, field.name)
    if field.is_repeated:
        return functools.partial(_unpack_all, one)
    return functools.partial(_unless_none, one) if field.kind is Kind.MESSAGE else one


def _checked(cls: type[Any], name: str, value: object) -> Any:
    if type(value) is not cls:
        raise ValueError(f"{name}: {type(value).__name__} given, {cls.__name__} expected")
    return value


def _unpack_all(one: Callable[[Any], Any], values: object) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise ValueError("a list expected")
    return tuple(map(one, values))


def _unless_none(one: Callable[[Any], Any], value: object) -> Any:
    return None if value is None else one(value)
