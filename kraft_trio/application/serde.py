"""Encodes an application's values as record bytes: msgpack through cattrs, or plain bytes."""

from __future__ import annotations

from typing import Any, Protocol, cast

import attrs
import cattrs
import msgpack
from cattrs.preconf.msgpack import make_converter

from kraft_trio.errors import KraftError


class SerdeError(KraftError):
    """A value cannot be encoded, or bytes cannot be decoded.  Names the tag, the version or the class."""


class Serde(Protocol):
    """Turns values into record bytes and back."""

    def encode(self, value: Any) -> bytes:
        """Encode a value.  Raises SerdeError for a value that this serde does not know."""

    def decode(self, data: bytes) -> Any:
        """Decode a value.  Raises SerdeError for bytes that no known class has written."""


class RawSerde:
    """Bytes in, bytes out."""

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            given = type(value).__name__
            raise SerdeError(f"value: {given} given, bytes expected (or open the node with a MsgpackSerde)")
        return bytes(value)

    def decode(self, data: bytes) -> bytes:
        return data


@attrs.frozen
class _Registered:
    tag: str
    version: int
    cls: type[Any]


class MsgpackSerde:
    """attrs classes as msgpack arrays `[tag, version, fields]`.

    Each class is registered under a tag and a version, and is written with them.  A tag may have several versions, so
    that an old log stays readable after a class has changed.
    """

    def __init__(self, *classes: type[Any]) -> None:
        self._converter: cattrs.Converter = make_converter(forbid_extra_keys=True)
        self._by_class: dict[type[Any], _Registered] = {}
        self._by_tag: dict[tuple[str, int], _Registered] = {}
        for cls in classes:
            self.register(cls)

    def register(self, cls: type[Any], *, tag: str | None = None, version: int = 1) -> None:
        """Register the attrs class `cls` under `tag` (by default its name) and `version` (1 or more).

        Raises ValueError if it is not an attrs class, or if the tag and version are taken.
        """
        if not attrs.has(cls):
            raise ValueError(f"{cls.__name__} is not an attrs class")
        registered = _Registered(cls.__name__ if tag is None else tag, version, cls)
        key = (registered.tag, version)
        if key in self._by_tag or cls in self._by_class:
            raise ValueError(
                f"{cls.__name__}: tag {registered.tag!r} version {version}, or the class, is registered already"
            )
        self._by_tag[key] = self._by_class[cls] = registered

    def encode(self, value: Any) -> bytes:
        registered = self._by_class.get(type(value))
        if registered is None:
            known = ", ".join(sorted(cls.__name__ for cls in self._by_class)) or "none"
            raise SerdeError(f"value: {type(value).__name__} is not registered with this serde (known: {known})")
        fields = self._converter.unstructure(value)
        return cast(bytes, msgpack.packb([registered.tag, registered.version, fields], use_bin_type=True))

    def decode(self, data: bytes) -> Any:
        try:
            tag, version, fields = msgpack.unpackb(data, raw=False, strict_map_key=False)
            registered = self._by_tag.get((tag, version))
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise SerdeError(f"{len(data)} bytes are not a value written by MsgpackSerde: {error}") from error
        if registered is None:
            known = ", ".join(f"{tag} v{version}" for tag, version in sorted(self._by_tag)) or "none"
            raise SerdeError(f"no class is registered for tag {tag!r} version {version} (known: {known})")
        try:
            return self._converter.structure(fields, registered.cls)
        except Exception as error:
            raise SerdeError(f"{tag!r} version {version}: {cattrs.transform_error(error)}") from error
