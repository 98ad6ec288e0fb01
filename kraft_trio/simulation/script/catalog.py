"""All steps: importing this module registers them, and `parse_step` reads a line into one of them."""

from __future__ import annotations

from collections.abc import Sequence

from kraft_trio.simulation.script import (
    expectations,
    steps_campaign,
    steps_disk,
    steps_election,
    steps_membership,
    steps_network,
    steps_operations,
    steps_process,
    steps_stranger,
    steps_time,
)
from kraft_trio.simulation.script.steps import STEPS, Step, read_fields
from kraft_trio.simulation.script.words import StepError, Words, split_words

__all__ = ["STEP_MODULES", "parse_step", "step_from_words"]

STEP_MODULES = (
    steps_time,
    steps_election,
    steps_operations,
    expectations,
    steps_process,
    steps_network,
    steps_disk,
    steps_stranger,
    steps_membership,
    steps_campaign,
)
"""In the order of the manual."""

_LONGEST_VERB = 3


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
        step = STEPS.get(" ".join(words[:length]))
        if step is not None:
            return _read(step, Words(words, length))
    verb = " ".join(words[: 2 if words[:1] == ["expect"] else 1])
    alike = [known for known in sorted(STEPS) if known.startswith("expect") == verb.startswith("expect")]
    raise StepError(f"unknown verb {verb!r}; expected one of {', '.join(alike)}")


def _read(step: type[Step], words: Words) -> Step:
    try:
        return step(**read_fields(step, words))
    except (StepError, ValueError) as error:
        raise StepError(f"{error}: {step.syntax()}") from None
