"""The parts of a line: how each kind of value is read from words and written as words.

Reading is the inverse of writing: `read(write(value)) == value` for every value that `check` accepts.  A step that a
program makes therefore prints as a line that makes the same step again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Generic, TypeVar

from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.script.words import StepError, Words

T = TypeVar("T")


class Part(Generic[T]):
    """The syntax of one kind of value.  The annotation of a parameter names it: `Annotated[int, NODE]`."""

    def __init__(self, name: str, expected: str) -> None:
        self.name = name
        """The name in the shown syntax, such as N."""
        self.expected = expected
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
        return StepError(f"{'the line ends' if word is None else repr(word)}; expected {self.expected}")


class OneWord(Part[T]):
    """A value of one word: `parse` returns None for a word that is no such value."""

    def __init__(
        self, name: str, expected: str, parse: Callable[[str], T | None], write: Callable[[T], str] = str
    ) -> None:
        super().__init__(name, expected)
        self._parse = parse
        self._write = write

    def begins(self, words: Words) -> bool:
        return self._parse(words.peek() or "") is not None

    def read(self, words: Words) -> T:
        value = self._parse(words.peek() or "")
        if value is None:
            raise self.error(words)
        words.position += 1
        return value

    def write(self, value: T) -> list[str]:
        return [self._write(value)]

    def check(self, value: T) -> bool:
        return self._parse(self._write(value)) == value


class NodePart(OneWord[int]):
    """The id of a node."""

    def node_ids(self, value: int) -> Iterable[int]:
        return (value,)


class Several(Part[tuple[T, ...]]):
    """A number of values, perhaps each only once."""

    def __init__(self, one: OneWord[T], expected: str, *, least: int = 0, is_set: bool = False) -> None:
        super().__init__(f"{one.name}...", expected)
        self.one = one
        self._least = least
        self._is_set = is_set

    def begins(self, words: Words) -> bool:
        return self.one.begins(words)

    def read(self, words: Words) -> tuple[T, ...]:
        values: list[T] = []
        while self.one.begins(words) and words.peek(1) != "->":
            values.append(self.one.read(words))
            if self._is_set and values[-1] in values[:-1]:
                raise StepError(f"node {values[-1]} twice; expected {self.expected}, each once")
        if len(values) < self._least:
            raise self.error(words)
        return tuple(values)

    def write(self, value: tuple[T, ...]) -> list[str]:
        return [word for one in value for word in self.one.write(one)]

    def check(self, value: tuple[T, ...]) -> bool:
        is_long_enough = isinstance(value, tuple) and len(value) >= self._least
        is_unique = not self._is_set or len(set(value)) == len(value)
        return is_long_enough and is_unique and all(map(self.one.check, value))

    def node_ids(self, value: tuple[T, ...]) -> Iterable[int]:
        return (node for one in value for node in self.one.node_ids(one))


class GroupsPart(Part[tuple[tuple[int, ...], ...]]):
    """At least two groups of nodes, each node in one group: `1 2 | 3`."""

    def __init__(self, expected: str, most: int) -> None:
        super().__init__("N... | N...", expected)
        self._most = most

    def begins(self, words: Words) -> bool:
        return NODES.begins(words)

    def read(self, words: Words) -> tuple[tuple[int, ...], ...]:
        if not self.begins(words):
            raise self.error(words)
        groups = [NODES.read(words)]
        while words.skip("|"):
            groups.append(NODES.read(words))
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
        return " | ".join(" ".join(NODES.write(group)) for group in value).split(" ")

    def check(self, value: tuple[tuple[int, ...], ...]) -> bool:
        is_long_enough = isinstance(value, tuple) and 2 <= len(value) <= self._most
        return is_long_enough and all(map(NODES.check, value)) and NODES.check(tuple(self.node_ids(value)))

    def node_ids(self, value: tuple[tuple[int, ...], ...]) -> Iterable[int]:
        return (node for group in value for node in group)


class LinkPart(Part[tuple[int, int]]):
    """One direction between two nodes: `1 -> 2`."""

    def begins(self, words: Words) -> bool:
        return NODE.begins(words) and words.peek(1) == "->"

    def read(self, words: Words) -> tuple[int, int]:
        if not self.begins(words) or _number(words.peek(2) or "") is None:
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


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) <= 18 else None


_UNITS_US: Final = (("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("us", 1))
_DURATION: Final = re.compile(r"(\d{1,15})(h|m|s|ms|us)")


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


_PERCENT: Final = re.compile(r"([+-]?)(\d{1,5})(?:\.(\d{1,4}))?%")


def percent(name: str, expected: str, minimum_ppm: int, maximum_ppm: int) -> OneWord[int]:
    """Parts per million, written as a percentage; both bounds are inclusive."""

    def parse(word: str) -> int | None:
        match = _PERCENT.fullmatch(word)
        if match is None:
            return None
        ppm = int(match[2]) * 10_000 + int((match[3] or "").ljust(4, "0"))
        ppm = -ppm if match[1] == "-" else ppm
        return ppm if minimum_ppm <= ppm <= maximum_ppm else None

    def write(ppm: int) -> str:
        whole, fraction = divmod(abs(ppm), 10_000)
        digits = f".{fraction:04}".rstrip("0") if fraction else ""
        sign = "-" if ppm < 0 else "+" if minimum_ppm < 0 else ""
        return f"{sign}{whole}{digits}%"

    return OneWord(name, expected, parse, write)


def _unquoted(word: str) -> str | None:
    """Text in double quotes, with the escapes of JSON."""
    try:
        text = str(json.loads(word)) if word.startswith('"') else None
    except ValueError:
        return None
    return text if text is None or text.isprintable() else None


def word(name: str, expected: str, pattern: str) -> OneWord[str]:
    """One word that matches a pattern."""
    return OneWord(name, expected, lambda text: text if re.fullmatch(pattern, text) else None)


def choice(*values: str) -> OneWord[Any]:
    """One of these words."""
    return OneWord("|".join(values), f"one of {', '.join(values)}", lambda text: text if text in values else None)


def number(name: str, expected: str) -> OneWord[int]:
    """A whole number, 0 or higher, with at most 18 digits."""
    return OneWord(name, expected, _number)


NODE: Final = NodePart("N", "a node id", _number)
NODES: Final = Several(NODE, "node ids", least=1, is_set=True)
QUOTED: Final = OneWord(
    '"TEXT"', 'text in double quotes, as in "a"', _unquoted, lambda text: json.dumps(text, ensure_ascii=False)
)

Node = Annotated[int, NODE]
Nodes = Annotated[tuple[int, ...], NODES]
Groups = Annotated[tuple[tuple[int, ...], ...], GroupsPart("groups of node ids, as in 1 2 | 3", most=1000)]
TwoGroups = Annotated[tuple[tuple[int, ...], ...], GroupsPart("two groups of node ids, as in 1 2 | 3", most=2)]
Link = Annotated[tuple[int, int], LinkPart("A -> B", "a link, as in 1 -> 2")]
Duration = Annotated[int, OneWord("T", "a duration, as in 250ms, 3s or 10m", duration_from_text, duration_text)]
"""In microseconds."""
Offset = Annotated[int, number("OFFSET", "an offset")]
Epoch = Annotated[int, number("EPOCH", "an epoch")]
Number = Annotated[int, number("NUMBER", "a whole number")]
Drift = Annotated[int, percent("±P%", "a drift between -50% and +50%, as in +0.5%", -500_000, 500_000)]
"""In parts per million, like Probability."""
Probability = Annotated[int, percent("P%", "a probability, as in 5%", 0, 1_000_000)]
Quoted = Annotated[str, QUOTED]
QuotedList = Annotated[tuple[str, ...], Several(QUOTED, "texts in double quotes")]
Lose = Annotated[Loss, choice("all", "some", "reordered")]
"""Which unsynced writes a power failure loses."""
