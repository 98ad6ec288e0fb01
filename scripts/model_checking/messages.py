"""Reads the messages that TLC prints with its option -tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

_BEGIN: Final = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@")
_END: Final = re.compile(r"@!@!@ENDMSG \d+ @!@!@")

_STATISTICS: Final = re.compile(
    r"(?:Progress\((?P<depth>[\d,]+)\) at [^:]*:\d+:\d+: )?"
    r"(?P<states>[\d,]+) states generated.*?, (?P<distinct>[\d,]+) distinct states found"
)

SUCCESS: Final = 2193
DEPTH: Final = 2194
STATISTICS: Final = frozenset({2199, 2200})
SIMULATED: Final = frozenset({2209, 2210})
STATE: Final = frozenset({2217})
LOOP: Final = frozenset({2218, 2122})
"""How a behaviour that breaks a temporal property goes on for ever: it stays where it is, or is back in a state."""
BROKEN: Final = frozenset({2107, 2108, 2110, 2112, 2116, 2114})
"""Invariants and properties in the first state or later, temporal properties, and deadlocks."""
AT_THE_BEGINNING: Final = frozenset({2107, 2108})
"""Those of them in the first state, which the message itself has."""
ERRORS: Final = frozenset({1, 2})
"""The severities of errors."""


@attrs.frozen
class Message:
    code: int
    severity: int
    text: str


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """The messages in TLC's output, each as soon as it is complete.  What is between them is a message of code 0.

    A message within another one follows it.
    """
    code, severity, text = 0, 0, list[str]()
    for line in lines:
        begin = _BEGIN.match(line)
        if begin:
            if code:
                yield Message(code, severity, "\n".join(text))
            code, severity, text = int(begin[1]), int(begin[2]), []
        elif _END.match(line):
            if code:
                yield Message(code, severity, "\n".join(text))
            code = 0
        elif code:
            text.append(line.rstrip("\n"))
        elif line.strip():
            yield Message(0, 0, line.rstrip("\n"))


@attrs.frozen
class Statistics:
    """How many states TLC has found, and in progress messages how deep."""

    states: int
    distinct: int
    depth: int | None = None

    @classmethod
    def of(cls, text: str) -> Statistics:
        found = _STATISTICS.search(text)
        assert found is not None, text
        depth = None if found["depth"] is None else numbers(found["depth"])[0]
        return cls(numbers(found["states"])[0], numbers(found["distinct"])[0], depth)


def simulated(text: str) -> int:
    """How many states random behaviours have had."""
    found = re.search(r"([\d,]+) states (?:generated|checked)|generated: ([\d,]+)", text)
    assert found is not None, text
    return numbers(found[1] or found[2])[0]


def numbers(text: str) -> list[int]:
    """The numbers in a message, which TLC may group with commas."""
    return [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text)]
