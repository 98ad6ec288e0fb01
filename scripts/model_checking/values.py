"""Reads the values that TLC prints, and says how two states differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

_TOKEN: Final = re.compile(r'\s*("[^"]*"|<<|>>|\|->|:>|@@|-?\d+|\w+|[][{}(),])')


@attrs.frozen
class Name:
    """A model value, or TRUE or FALSE."""

    text: str

    def __str__(self) -> str:
        return self.text


Value = Any
"""A Name, a str, an int, a list (a TLA+ sequence), a frozenset of texts (a set), or a dict (a function or record)."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def _take(self, *expected: str) -> str:
        token: str = self._tokens[self._at]
        if expected and token not in expected:
            raise ValueError(f"{token!r} in a value of TLC: expected {' or '.join(expected)}")
        self._at += 1
        return token

    def _next_is(self, token: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at] == token

    def _items(self, end: str) -> Iterator[Value]:
        while not self._next_is(end):
            yield self.value()
            if not self._next_is(end):
                self._take(",")
        self._take(end)

    def value(self) -> Value:
        token = self._take()
        match token:
            case "<<":
                return list(self._items(">>"))
            case "{":
                return frozenset(text_of(item) for item in self._items("}"))
            case "[":
                return self._record()
            case "(":
                return self._function()
        if token.startswith('"'):
            return token[1:-1]
        return int(token) if re.fullmatch(r"-?\d+", token) else Name(token)

    def _record(self) -> dict[Any, Value]:
        fields: dict[Any, Value] = {}
        while not self._next_is("]"):
            key = self._take()
            self._take("|->")
            fields[key] = self.value()
            if not self._next_is("]"):
                self._take(",")
        self._take("]")
        return fields

    def _function(self) -> dict[Any, Value]:
        pairs: dict[Any, Value] = {}
        while True:
            key = self.value()
            self._take(":>")
            pairs[text_of(key)] = self.value()
            if self._take("@@", ")") == ")":
                return pairs


def value_of(text: str) -> Value:
    """The value that TLC printed.  Raises ValueError or IndexError for other text."""
    return _Reader(text).value()


def state_of(text: str) -> dict[str, Value]:
    """The values of a printed state, by variable."""
    parts = re.split(r"(?:^|\n)/\\ (\w+) = ", "\n" + text)[1:]
    return {name: value_of(value) for name, value in zip(parts[::2], parts[1::2], strict=True)}


def text_of(value: Value) -> str:
    """The value on one line, shorter than TLC prints it."""
    match value:
        case Mapping() if set(value) >= {"epoch", "number", "voters"}:
            voters = f" voters {text_of(value['voters'])}" if value["voters"] else ""
            return f"{value['epoch']}.{value['number']}{voters}"
        case Mapping():
            return "[" + ", ".join(f"{key}: {text_of(item)}" for key, item in value.items()) + "]"
        case str():
            return value
        case frozenset():
            return "{" + ", ".join(sorted(value)) + "}"
        case Sequence():
            return "<" + ", ".join(map(text_of, value)) + ">"
        case _:
            return str(value)


def differences(before: Value, after: Value, path: str = "") -> list[str]:
    """What has changed between two values, one text for each place in functions and records."""
    if before == after:
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping) and set(before) == set(after):
        is_state = not path
        return [
            text
            for key in after
            for text in differences(before[key], after[key], key if is_state else f"{path}[{key}]")
        ]
    return [f"{path}: {text_of(before)} -> {text_of(after)}"]
