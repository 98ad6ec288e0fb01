"""The parts of a line: how each kind of value is read from words and written as words.

Reading is the inverse of writing: `read(write(value)) == value` for every value that `check` accepts.  A step that a
program makes therefore prints as a line that makes the same step again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Generic, TypeVar

from kraft_trio.simulation.script.words import StepError, Words

T = TypeVar("T")


class Part(Generic[T]):
    """The syntax of one kind of field."""

    name: str
    """The name in the shown syntax, such as N."""
    expected: str
    """For errors, such as "a node id"."""

    def begins(self, words: Words) -> bool:
        """Whether the next word begins such a value, so that an optional value is present."""
        raise NotImplementedError

    def read(self, words: Words) -> T:
        """Read one value.  Raises StepError."""
        raise NotImplementedError

    def write(self, value: T) -> list[str]:
        raise NotImplementedError

    def check(self, value: T) -> bool:
        """Whether the value can be written."""
        raise NotImplementedError

    def node_ids(self, value: T) -> Iterable[int]:
        """The nodes that the value names."""
        return ()

    def error(self, words: Words) -> StepError:
        word = words.peek()
        return StepError(
            f"the line ends; expected {self.expected}" if word is None else f"{word!r}; expected {self.expected}"
        )


def _is_number(word: str | None) -> bool:
    return word is not None and word.isascii() and word.isdigit() and len(word) <= 18


class NumberPart(Part[int]):
    """A whole number, 0 or higher."""

    def __init__(self, name: str, expected: str, *, is_node: bool = False) -> None:
        self.name = name
        self.expected = expected
        self._is_node = is_node

    def begins(self, words: Words) -> bool:
        return _is_number(words.peek())

    def read(self, words: Words) -> int:
        if not _is_number(words.peek()):
            raise self.error(words)
        return int(words.take(self.expected))

    def write(self, value: int) -> list[str]:
        return [str(value)]

    def check(self, value: int) -> bool:
        return isinstance(value, int) and 0 <= value < 10**18

    def node_ids(self, value: int) -> Iterable[int]:
        return (value,) if self._is_node else ()


class NodesPart(Part[tuple[int, ...]]):
    """One or more node ids, each once."""

    name = "N..."
    expected = "node ids"

    def begins(self, words: Words) -> bool:
        return _is_number(words.peek())

    def read(self, words: Words) -> tuple[int, ...]:
        nodes: list[int] = []
        while _is_number(words.peek()) and words.peek(1) != "->":
            nodes.append(int(words.take(self.expected)))
            if nodes[-1] in nodes[:-1]:
                raise StepError(f"node {nodes[-1]} twice; expected {self.expected}, each once")
        if not nodes:
            raise self.error(words)
        return tuple(nodes)

    def write(self, value: tuple[int, ...]) -> list[str]:
        return [str(node) for node in value]

    def check(self, value: tuple[int, ...]) -> bool:
        return (
            isinstance(value, tuple) and len(value) > 0 and len(set(value)) == len(value) and all(n >= 0 for n in value)
        )

    def node_ids(self, value: tuple[int, ...]) -> Iterable[int]:
        return value


class GroupsPart(Part[tuple[tuple[int, ...], ...]]):
    """At least two groups of nodes, each node in one group: `1 2 | 3`."""

    _nodes = NodesPart()

    def __init__(self, name: str, expected: str, most: int) -> None:
        self.name = name
        self.expected = expected
        self._most = most

    def begins(self, words: Words) -> bool:
        return _is_number(words.peek())

    def read(self, words: Words) -> tuple[tuple[int, ...], ...]:
        if not self.begins(words):
            raise self.error(words)
        groups = [self._nodes.read(words)]
        while words.skip("|"):
            groups.append(self._nodes.read(words))
        if len(groups) < 2:
            raise self.error(words)
        if len(groups) > self._most:
            raise StepError(f"{len(groups)} groups; expected {self.expected}")
        nodes = [node for group in groups for node in group]
        if len(set(nodes)) != len(nodes):
            twice = next(node for node in nodes if nodes.count(node) > 1)
            raise StepError(f"node {twice} is in two groups; expected {self.expected}")
        return tuple(groups)

    def write(self, value: tuple[tuple[int, ...], ...]) -> list[str]:
        return " | ".join(" ".join(self._nodes.write(group)) for group in value).split(" ")

    def check(self, value: tuple[tuple[int, ...], ...]) -> bool:
        are_groups = (
            isinstance(value, tuple)
            and 2 <= len(value) <= self._most
            and all(self._nodes.check(group) for group in value)
        )
        return are_groups and self._nodes.check(tuple(node for group in value for node in group))

    def node_ids(self, value: tuple[tuple[int, ...], ...]) -> Iterable[int]:
        return (node for group in value for node in group)


class LinkPart(Part[tuple[int, int]]):
    """One direction between two nodes: `1 -> 2`."""

    name = "A -> B"
    expected = "a link, as in 1 -> 2"

    def begins(self, words: Words) -> bool:
        return _is_number(words.peek()) and words.peek(1) == "->"

    def read(self, words: Words) -> tuple[int, int]:
        if not self.begins(words) or not _is_number(words.peek(2)):
            raise self.error(words)
        source, _, target = (words.take(self.expected) for _ in range(3))
        if source == target:
            raise StepError(f"'{source} -> {target}' leads nowhere; expected {self.expected}")
        return int(source), int(target)

    def write(self, value: tuple[int, int]) -> list[str]:
        return [str(value[0]), "->", str(value[1])]

    def check(self, value: tuple[int, int]) -> bool:
        return isinstance(value, tuple) and len(value) == 2 and value[0] != value[1] and min(value) >= 0

    def node_ids(self, value: tuple[int, int]) -> Iterable[int]:
        return value


_UNITS_US = (("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("us", 1))
_DURATION = re.compile(r"(\d{1,15})(h|m|s|ms|us)")


def duration_text(duration_us: int) -> str:
    """Microseconds in the largest unit without a fraction, such as "250ms"."""
    unit, size = next(
        (unit, size) for unit, size in _UNITS_US if duration_us % size == 0 and (duration_us or size == 10**6)
    )
    return f"{duration_us // size}{unit}"


def duration_from_text(text: str) -> int | None:
    """The microseconds of "250ms", "3s" or "10m"; None for any other text."""
    match = _DURATION.fullmatch(text)
    return None if match is None else int(match[1]) * dict(_UNITS_US)[match[2]]


class DurationPart(Part[int]):
    """A duration in microseconds, written with a unit."""

    name = "T"
    expected = "a duration, as in 250ms, 3s or 10m"

    def begins(self, words: Words) -> bool:
        return duration_from_text(words.peek() or "") is not None

    def read(self, words: Words) -> int:
        duration_us = duration_from_text(words.peek() or "")
        if duration_us is None:
            raise self.error(words)
        words.take(self.expected)
        return duration_us

    def write(self, value: int) -> list[str]:
        return [duration_text(value)]

    def check(self, value: int) -> bool:
        return isinstance(value, int) and 0 <= value < 10**15


_PERCENT = re.compile(r"([+-]?)(\d{1,5})(?:\.(\d{1,4}))?%")


class PercentPart(Part[int]):
    """Parts per million, written as a percentage."""

    def __init__(self, name: str, expected: str, minimum_ppm: int, maximum_ppm: int) -> None:
        self.name = name
        self.expected = expected
        self._range = range(minimum_ppm, maximum_ppm + 1)

    def begins(self, words: Words) -> bool:
        return _PERCENT.fullmatch(words.peek() or "") is not None

    def read(self, words: Words) -> int:
        match = _PERCENT.fullmatch(words.peek() or "")
        if match is None:
            raise self.error(words)
        ppm = int(match[2]) * 10_000 + int((match[3] or "").ljust(4, "0"))
        ppm = -ppm if match[1] == "-" else ppm
        if ppm not in self._range:
            raise self.error(words)
        words.take(self.expected)
        return ppm

    def write(self, value: int) -> list[str]:
        whole, fraction = divmod(abs(value), 10_000)
        digits = f".{fraction:04}".rstrip("0") if fraction else ""
        sign = "-" if value < 0 else "+" if self._range.start < 0 else ""
        return [f"{sign}{whole}{digits}%"]

    def check(self, value: int) -> bool:
        return isinstance(value, int) and value in self._range


class QuotedPart(Part[str]):
    """Text in double quotes, with the escapes of JSON."""

    name = '"TEXT"'
    expected = 'text in double quotes, as in "a"'

    def begins(self, words: Words) -> bool:
        return (words.peek() or "").startswith('"')

    def read(self, words: Words) -> str:
        if not self.begins(words):
            raise self.error(words)
        try:
            value = json.loads(words.peek() or "")
        except ValueError:
            raise self.error(words) from None
        words.take(self.expected)
        return str(value)

    def write(self, value: str) -> list[str]:
        return [json.dumps(value, ensure_ascii=False)]

    def check(self, value: str) -> bool:
        return isinstance(value, str) and value.isprintable()


class QuotedListPart(Part[tuple[str, ...]]):
    """Any number of quoted texts, possibly zero."""

    name = '"TEXT"...'
    expected = "texts in double quotes"
    _quoted = QuotedPart()

    def begins(self, words: Words) -> bool:
        return self._quoted.begins(words)

    def read(self, words: Words) -> tuple[str, ...]:
        values: list[str] = []
        while self._quoted.begins(words):
            values.append(self._quoted.read(words))
        return tuple(values)

    def write(self, value: tuple[str, ...]) -> list[str]:
        return [word for text in value for word in self._quoted.write(text)]

    def check(self, value: tuple[str, ...]) -> bool:
        return isinstance(value, tuple) and all(self._quoted.check(text) for text in value)


class WordPart(Part[str]):
    """One word that matches a pattern."""

    def __init__(self, name: str, expected: str, pattern: str) -> None:
        self.name = name
        self.expected = expected
        self._pattern = re.compile(pattern)

    def begins(self, words: Words) -> bool:
        return self.check(words.peek() or "")

    def read(self, words: Words) -> str:
        if not self.begins(words):
            raise self.error(words)
        return words.take(self.expected)

    def write(self, value: str) -> list[str]:
        return [value]

    def check(self, value: str) -> bool:
        return isinstance(value, str) and self._pattern.fullmatch(value) is not None


def choice(*values: str) -> WordPart:
    """One of these words."""
    return WordPart("|".join(values), f"one of {', '.join(values)}", "|".join(re.escape(value) for value in values))


class FlagPart(Part[bool]):
    """A word that may be present."""

    def __init__(self, word: str) -> None:
        self.name = word
        self.expected = repr(word)
        self._word = word

    def begins(self, words: Words) -> bool:
        return words.peek() == self._word

    def read(self, words: Words) -> bool:
        return words.skip(self._word)

    def write(self, value: bool) -> list[str]:
        return [self._word] if value else []

    def check(self, value: bool) -> bool:
        return isinstance(value, bool)


NODE = NumberPart("N", "a node id", is_node=True)
NODES = NodesPart()
GROUPS = GroupsPart("N... | N...", "groups of node ids, as in 1 2 | 3", most=1000)
TWO_GROUPS = GroupsPart("N... | N...", "two groups of node ids, as in 1 2 | 3", most=2)
LINK = LinkPart()
DURATION = DurationPart()
OFFSET = NumberPart("OFFSET", "an offset")
EPOCH = NumberPart("EPOCH", "an epoch")
NUMBER = NumberPart("NUMBER", "a whole number")
DRIFT = PercentPart("±P%", "a drift between -50% and +50%, as in +0.5%", -500_000, 500_000)
PROBABILITY = PercentPart("P%", "a probability, as in 5%", 0, 1_000_000)
QUOTED = QuotedPart()
QUOTED_LIST = QuotedListPart()
