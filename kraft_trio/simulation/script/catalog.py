"""All steps: importing this module registers them, and `parse_step` reads a line into one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft_trio.simulation.script.step import STEPS, Step
from kraft_trio.simulation.script.steps import (
    clients,
    clock,
    disk,
    election,
    expectations,
    membership,
    network,
    process,
    runs,
    strangers,
)
from kraft_trio.simulation.script.words import StepError, Words, split_words

STEP_MODULES: Final = (
    clock,
    election,
    clients,
    expectations,
    process,
    network,
    disk,
    strangers,
    membership,
    runs,
)
"""In the order of the manual."""

_LONGEST_VERB: Final = 3


def parse_step(text: str) -> Step:
    """Read one line.  Raises StepError, which says what the line has and what was expected."""
    words, comment = split_words(text)
    if comment:
        raise StepError(f"{comment!r}; expected a step without a comment")
    return step_from_words(words)


def step_from_words(words: Sequence[str]) -> Step:
    """Read the words of one line.  Raises StepError."""
    for length in range(_LONGEST_VERB, 0, -1):
        # The longest verb first, because "expect no leader" is not "expect" with two more words.
        kind = STEPS.get(" ".join(words[:length]))
        if kind is not None:
            return kind.read(Words(words, length))
    verb = " ".join(words[: 2 if words[:1] == ["expect"] else 1])
    alike = [known for known in sorted(STEPS) if known.startswith("expect") == verb.startswith("expect")]
    raise StepError(f"unknown verb {verb!r}; expected one of {', '.join(alike)}")
