"""What came of one simulated run, and what it covered: plain values that cross a process boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.protocol.roles import TRANSITIONS, Event
from kraft_trio.tracing.events import TraceEvent

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


_WITHIN_A_ROLE: Final = (Event.LEADER_MOVED, Event.FETCHED_FROM_LEADER, Event.LEADER_RESIGNED)
"""What changes a role's own state only: nothing is logged or published as a change of role."""

COVERED: Final = tuple(
    f"{role.__name__} {event.name.lower()}" for role, event in TRANSITIONS if event not in _WITHIN_A_ROLE
)
"""Every row of the transition table that a run can be seen to take, by role and event."""

_CAMPAIGNS: Final = ("Prospective", "Candidate")


@attrs.define
class RunCoverage:
    """Listens to the trace of one run."""

    transitions: Counter[str] = attrs.field(factory=Counter)
    """How often each of COVERED was taken."""
    slowest_election_us: int | None = None
    """From when the first of those who campaigned began to until one of them led; None where nobody was elected."""
    slowest_election_at_us: int | None = None
    """When that one led, in virtual time since the run began."""
    _campaigning: dict[int, int] = attrs.field(factory=dict)
    """Since when each node has known no leader and tried to become one."""

    def heard(self, event: TraceEvent) -> None:
        """Take in one event."""
        if event.node is None:
            return
        if event.kind == "role":
            self._role(event.node, event)
        elif event.kind == "end":
            self._campaigning.pop(event.node, None)
        elif event.kind == "log" and event.cause == "role":
            self.transitions[f"{event.details['was']} {str(event.details['by']).lower()}"] += 1

    def _role(self, node: int, event: TraceEvent) -> None:
        if event.role in _CAMPAIGNS:
            self._campaigning.setdefault(node, event.time_us)
        elif event.role == "Follower":
            self._campaigning.pop(node, None)
        elif event.role == "Leader":
            took_us = event.time_us - min(self._campaigning.values(), default=event.time_us)
            if self.slowest_election_us is None or took_us > self.slowest_election_us:
                self.slowest_election_us, self.slowest_election_at_us = took_us, event.time_us
            self._campaigning.clear()
