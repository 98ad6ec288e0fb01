"""What is said when an invariant does not hold: which one, when, and the two facts that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

import attrs


@attrs.frozen
class Violation:
    """A broken invariant, as found in the step that broke it."""

    invariant: int
    """Its number; 0 where a process ended by itself, or another rule of the simulation was broken."""
    title: str
    """The rule in words."""
    time_s: float
    """Virtual time since the run began."""
    facts: tuple[str, ...]
    """What cannot all be: two facts, as a rule."""
    nodes: tuple[int, ...] = ()
    """Ids of the nodes concerned, ascending."""

    def __str__(self) -> str:
        name = f"invariant {self.invariant}" if self.invariant else "simulation"
        return f"{name} ({self.title}) is violated at {self.time_s:.6f} s: {'; but '.join(self.facts)}"


class InvariantViolated(AssertionError):
    """A simulated run was stopped by a violation.  Its text is the whole report: seed, time, facts, last events."""

    def __init__(self, violation: Violation, seed: int, last_events: Sequence[object] = ()) -> None:
        """`last_events`: of the nodes concerned, oldest first, each printed on a line of its own."""
        self.violation = violation
        self.seed = seed
        self.last_events = tuple(last_events)
        lines = [f"seed {seed}: {violation}", *(f"    {event}" for event in self.last_events)]
        super().__init__("\n".join(lines))
