"""What came of one simulated run: plain values that cross a process boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

STUCK: Final = "stuck"
"""The rule that a run has broken that the watchdog ended."""

DIED: Final = "died"
"""The rule that a run has broken whose process ended without an outcome."""


@attrs.frozen
class Failure:
    """A rule that did not hold, with what contradicts it."""

    rule: str
    """`invariant N`, `simulation`, `stuck`, `died`, or the name of the exception that ended the run."""
    title: str
    """The rule in words.  A shrunk run keeps rule and title."""
    time_s: float
    """Virtual time since the run began."""
    facts: tuple[str, ...]
    """What contradicts each other."""
    events: tuple[str, ...] = ()
    """The last events of the nodes concerned, oldest first, for a human."""

    def is_of(self, other: Failure) -> bool:
        """Whether it is the same rule that did not hold: by its words where it has no number."""
        return self.rule == other.rule and (self.rule != "simulation" or self.title == other.title)

    def lines(self, seed: int) -> list[str]:
        """The report of it."""
        return [
            f"seed {seed}: {self.rule} ({self.title}) is violated at {self.time_s:.6f} s",
            *(f"  {fact}" for fact in self.facts),
            *(f"    {event}" for event in self.events),
        ]


@attrs.frozen
class Outcome:
    """One run, ended."""

    seed: int
    failure: Failure | None
    virtual_s: float
    real_s: float
    digest: str
    """Of everything that happened; equal for equal runs."""
    counts: Mapping[str, int] = attrs.field(factory=dict)
    """How often what happened: elections, acknowledged appends, faults by their verb."""
    faults: Mapping[str, int] = attrs.field(factory=dict)
    """How many faults the plan has, by their verb."""
    transitions: Mapping[str, int] = attrs.field(factory=dict)
    """How often each row of the transition table was taken, named as in `coverage.COVERED`."""
    slowest_election_us: int | None = None
    """See `coverage.RunCoverage`."""
    slowest_election_at_us: int | None = None

    @property
    def can_be_repeated(self) -> bool:
        """Whether the seed, run again, comes to the same end: not where the clock or the process ended the run."""
        return bool(self.digest) and (self.failure is None or self.failure.rule not in (STUCK, DIED))
