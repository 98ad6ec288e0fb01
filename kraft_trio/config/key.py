"""Configuration keys, and the kinds of value that they have.

A kind reads its values from text and says in words which values it allows.  Its `parse` raises ValueError.  `Key` turns
that into the ConfigError that a user sees, with the key, the value and what is allowed.  A kind looks at no other key,
at no file and at no network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import attrs

from kraft_trio.errors import ConfigError

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

KEY = "kraft_trio.config.key"
"""The entry of a field's metadata that holds its `Key`."""


class Kind(Protocol):
    """One kind of value."""

    @property
    def allowed(self) -> str:
        """The allowed values, in words that follow "expected"."""

    def parse(self, text: str) -> Any:
        """Parse the value.  Raises ValueError with a reason, or without text if `allowed` already says everything."""

    def format(self, value: Any) -> str:
        """The text that `parse` reads as that value."""


@attrs.frozen
class Integer:
    """A whole number, both ends inclusive."""

    minimum: int
    maximum: int = MAX_INT32

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.minimum} to {self.maximum}"

    def check(self, value: object) -> None:
        """Raises ValueError unless it is an int within the range."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.minimum <= value <= self.maximum:
            raise ValueError

    def parse(self, text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,20}", text) is None:
            raise ValueError
        value = int(text)
        self.check(value)
        return value

    def format(self, value: int) -> str:
        return str(value)


@attrs.frozen
class Truth:
    """`true` or `false`, in any case."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def parse(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError
        return lowered == "true"

    def format(self, value: bool) -> str:
        return "true" if value else "false"


@attrs.frozen
class Text:
    """Text parsed by `read`, which raises ValueError."""

    allowed: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str

    def parse(self, text: str) -> Any:
        return self.read(text)

    def format(self, value: Any) -> str:
        return self.write(value)


@attrs.frozen
class ListOf:
    """Items separated by commas, with optional spaces.  Empty text is the empty list."""

    allowed: str
    read: Callable[[str], Any]

    def parse(self, text: str) -> tuple[Any, ...]:
        if not text.strip():
            return ()
        items = [item.strip() for item in text.split(",")]
        if "" in items:
            raise ValueError("an entry between two commas is empty")
        return tuple(self.read(item) for item in items)

    def format(self, value: tuple[Any, ...]) -> str:
        return ",".join(str(item) for item in value)


@attrs.frozen
class Key:
    """A configuration key and everything known about it."""

    name: str
    kind: Kind
    unit: str
    meaning: str

    def refuse(self, value: object, reason: str = "") -> ConfigError:
        """The error that names this key, the value, the problem (if known) and the allowed values."""
        why = f": {reason}" if reason else ""
        return ConfigError(f"{self.name}={value}{why}; expected {self.kind.allowed}")

    def parse(self, text: str) -> Any:
        """Read the text of a `.properties` file.  Raises ConfigError."""
        try:
            return self.kind.parse(text.strip())
        except ValueError as error:
            raise self.refuse(text, str(error)) from error


def _check_integer(_config: object, field: attrs.Attribute[Any], value: Any) -> None:
    key: Key = field.metadata[KEY]
    assert isinstance(key.kind, Integer)
    try:
        key.kind.check(value)
    except ValueError as error:
        raise key.refuse(value) from error


def config_key(name: str, kind: Kind, meaning: str, *, default: Any = attrs.NOTHING, unit: str = "") -> Any:
    """An attrs field read from the configuration key `name`.  A key without default must be set."""
    return attrs.field(
        default=default,
        validator=_check_integer if isinstance(kind, Integer) else None,
        converter=tuple if isinstance(kind, ListOf) else None,
        metadata={KEY: Key(name, kind, unit, meaning)},
    )
