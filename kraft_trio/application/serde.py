"""Encodes an application's values as record bytes: msgpack through cattrs, or plain bytes."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, cast, overload

import attrs
import msgpack
import typing_extensions

from kraft_trio.errors import EncodeError, SerdeError

T = typing_extensions.TypeVar("T", default=Any)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

_SHOWN_CHARACTERS = 80


class Serde(Protocol[T]):
    """Turns values into record bytes and back."""

    def encode(self, value: T, /) -> bytes:
        """Encode a value.  Raises SerdeError for a value that `decode` would not give back."""
        ...

    def decode(self, data: bytes, /) -> T:
        """Decode a value.  Raises SerdeError for bytes that no known class has written."""
        ...


class RawSerde:
    """Bytes in, bytes out."""

    def encode(self, value: bytes, /) -> bytes:
        given: object = value
        if not isinstance(given, bytes | bytearray | memoryview):
            name = type(given).__name__
            raise EncodeError(f"value: {name} given, bytes expected (or open the node with a MsgpackSerde)")
        return bytes(value)

    def decode(self, data: bytes, /) -> bytes:
        return data


@attrs.frozen
class _Registered:
    tag: str
    version: int
    cls: type[Any]


class MsgpackSerde(Generic[T]):
    """attrs classes as msgpack arrays `[tag, version, fields]`.

    Each class is registered under a tag and a version, and is written with them.  A tag may have several versions, so
    that an old log stays readable after a class has changed.
    """

    @overload
    def __init__(self, only: type[T], /) -> None: ...
    @overload
    def __init__(self: MsgpackSerde[A | B], first: type[A], second: type[B], /) -> None: ...
    @overload
    def __init__(self: MsgpackSerde[A | B | C], first: type[A], second: type[B], third: type[C], /) -> None: ...
    @overload
    def __init__(
        self: MsgpackSerde[A | B | C | D], first: type[A], second: type[B], third: type[C], fourth: type[D], /
    ) -> None: ...
    @overload
    def __init__(self, *classes: type[Any]) -> None: ...
    def __init__(self, *classes: type[Any]) -> None:
        from cattrs.preconf.msgpack import make_converter

        self._converter = make_converter(forbid_extra_keys=True)
        self._by_class: dict[type[Any], _Registered] = {}
        self._by_tag: dict[tuple[str, int], _Registered] = {}
        for cls in classes:
            self.register(cls)

    def register(self, cls: type[Any], *, tag: str | None = None, version: int = 1) -> None:
        """Register the attrs class `cls` under `tag` (by default its name) and `version` (1 or more).

        Raises ValueError if it is not an attrs class, or if the tag and version are taken.
        """
        if not attrs.has(cls):
            raise ValueError(f"{cls.__name__ if isinstance(cls, type) else repr(cls)} is not an attrs class")
        registered = _Registered(cls.__name__ if tag is None else tag, version, cls)
        key = (registered.tag, version)
        if key in self._by_tag or cls in self._by_class:
            raise ValueError(
                f"{cls.__name__}: tag {registered.tag!r} version {version}, or the class, is registered already"
            )
        self._by_tag[key] = self._by_class[cls] = registered

    def encode(self, value: T, /) -> bytes:
        """Encode a value of a registered class, and check that `decode` gives an equal value.

        Raises EncodeError, which names the class and the attribute.
        """
        registered = self._by_class.get(type(value))
        if registered is None:
            known = ", ".join(sorted(cls.__name__ for cls in self._by_class)) or "none"
            raise EncodeError(f"value: {type(value).__name__} is not registered with this serde (known: {known})")
        name = registered.cls.__name__
        try:
            data = self._pack(registered, value)
            decoded = self.decode(data)
        except (SerdeError, ValueError, TypeError, OverflowError) as error:
            raise EncodeError(f"value: this {name} cannot be encoded: {error}") from error
        if decoded != value and self._pack(registered, decoded) != data:
            raise EncodeError(f"value: {name}.{_difference(value, decoded)}")
        return data

    def _pack(self, registered: _Registered, value: object) -> bytes:
        fields = self._converter.unstructure(value, registered.cls)
        return cast(bytes, msgpack.packb([registered.tag, registered.version, fields], use_bin_type=True))

    def decode(self, data: bytes, /) -> T:
        try:
            tag, version, fields = msgpack.unpackb(data, raw=False, strict_map_key=False)
            registered = self._by_tag.get((tag, version))
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise SerdeError(f"{len(data)} bytes are not a value written by MsgpackSerde: {error}") from error
        if registered is None:
            known = ", ".join(f"{tag} v{version}" for tag, version in sorted(self._by_tag)) or "none"
            raise SerdeError(f"no class is registered for tag {tag!r} version {version} (known: {known})")
        try:
            return cast(T, self._converter.structure(fields, registered.cls))
        except Exception as error:
            raise SerdeError(f"{tag!r} version {version}: {problems_of(error)}") from error


def problems_of(error: Exception) -> str:
    """What cattrs has found wrong with a value, in one line."""
    import cattrs

    try:
        return "; ".join(cattrs.transform_error(error))
    except TypeError:  # cattrs expects the names of unknown fields to be texts, and bytes may say anything
        return "unknown fields"


def _difference(value: Any, decoded: Any) -> str:
    """Name the first attribute that is not the same in both values of one attrs class."""
    for field in attrs.fields(type(value)):
        given, read = getattr(value, field.name), getattr(decoded, field.name)
        if given != read:
            return f"{field.name}: {_shown(given)} given, but it would be read as {_shown(read)}"
    return "eq: the value would not be read as it is"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
