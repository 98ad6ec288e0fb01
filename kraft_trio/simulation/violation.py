"""A broken invariant: which one, when, and the facts that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

import attrs


@attrs.frozen
class Violation:
    """A broken invariant, found in the step that broke it."""

    invariant: int
    """Its number; 0 if a process ended by itself, or if the run broke another rule of the simulation."""
    title: str
    """The rule in words."""
    time_s: float
    """Virtual time since the run began."""
    facts: tuple[str, ...]
    """The facts that contradict each other, usually two."""
    nodes: tuple[int, ...] = ()
    """Ids of the nodes concerned, ascending."""

    def __str__(self) -> str:
        name = f"invariant {self.invariant}" if self.invariant else "simulation"
        return f"{name} ({self.title}) is violated at {self.time_s:.6f} s: {'; but '.join(self.facts)}"


class InvariantViolated(AssertionError):
    """A violation has ended a simulated run.  The text is the whole report: seed, time, facts, last events."""

    def __init__(self, violation: Violation, seed: int, last_events: Sequence[object] = ()) -> None:
        """`last_events` are those of the nodes concerned, oldest first.  Each is printed on its own line."""
        self.violation = violation
        self.seed = seed
        self.last_events = tuple(last_events)
        lines = [f"seed {seed}: {violation}", *(f"    {event}" for event in self.last_events)]
        super().__init__("\n".join(lines))
