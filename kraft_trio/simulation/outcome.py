"""What came of one simulated run: plain values that cross a process boundary."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Failure:
    """A rule that did not hold, with what contradicts it."""

    rule: str
    """`invariant N`, `simulation`, or the name of the exception that ended the run."""
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
