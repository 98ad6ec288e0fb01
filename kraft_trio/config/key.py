"""Configuration keys, and the kinds of value that they have.

A kind reads its values from text and says in words which values it allows.  Its `parse` and `take` raise ValueError.
`Key` turns that into the ConfigError that a user sees, with the key, the value and what is allowed.  A kind looks at no
other key, at no file and at no network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Protocol

import attrs

from kraft_trio.config.secret import HIDDEN, SecretText
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

    def take(self, value: object) -> Any:
        """Accept a value from Python that is not text.  Raises ValueError like `parse`."""

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

    def take(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not self.minimum <= value <= self.maximum:
            raise ValueError
        return value

    def parse(self, text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,20}", text) is None:
            raise ValueError
        return self.take(int(text))

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

    def take(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    def format(self, value: bool) -> str:
        return "true" if value else "false"


@attrs.frozen
class Text:
    """Text parsed by `read`, which raises ValueError, or a value of `type`."""

    allowed: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    type: type = str

    def parse(self, text: str) -> Any:
        return self.read(text)

    def take(self, value: object) -> Any:
        if isinstance(value, os.PathLike) and isinstance(path := os.fspath(value), str):
            return self.read(path)
        if self.type is tuple and isinstance(value, list):
            value = tuple(value)
        if isinstance(value, tuple) and value:
            try:
                return self.read(self.write(value))
            except (TypeError, AttributeError):
                raise ValueError("an item has another type") from None
        if not isinstance(value, self.type):
            raise ValueError
        return value

    def format(self, value: Any) -> str:
        return self.write(value)


@attrs.frozen
class ListOf:
    """Items separated by commas, with optional spaces.  Empty text is the empty list.

    In Python, a list of texts or of values of `type`.
    """

    allowed: str
    read: Callable[[str], Any]
    type: type = str
    check: Callable[[Any], Any] = lambda item: item
    """Turns a value of `type` into what `read` makes of its text.  Raises ValueError."""

    def parse(self, text: str) -> tuple[Any, ...]:
        if not text.strip():
            return ()
        items = [item.strip() for item in text.split(",")]
        if "" in items:
            raise ValueError("an entry between two commas is empty")
        return tuple(self.read(item) for item in items)

    def take(self, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(item, str | self.type) for item in value):
            raise ValueError
        return tuple(self.read(item) if isinstance(item, str) else self.check(item) for item in value)

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
        shown = HIDDEN if isinstance(self.kind, SecretText) else value
        return ConfigError(f"{self.name}={shown}{why}; expected {self.kind.allowed}")

    def parse(self, text: str) -> Any:
        """Read the text of a `.properties` file.  Raises ConfigError."""
        try:
            return self.kind.parse(text.strip())
        except ValueError as error:
            raise self.refuse(text, str(error)) from error

    def take(self, value: object) -> Any:
        """Accept a value from Python, which may be text.  Raises ConfigError."""
        if isinstance(value, str):
            return self.parse(value)
        try:
            return self.kind.take(value)
        except ValueError as error:
            raise self.refuse(repr(value), str(error)) from error


def config_key(name: str, kind: Kind, meaning: str, *, default: Any = attrs.NOTHING, unit: str = "") -> Any:
    """An attrs field read from the configuration key `name`.  A key without default must be set."""
    key = Key(name, kind, unit, meaning)
    return attrs.field(default=default, converter=key.take, metadata={KEY: key})
