"""What came of one simulated run and what it covered: plain values that cross a process boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.protocol.roles import TRANSITIONS, Event
from kraft_trio.tracing.events import TraceEvent

STUCK: Final = "stuck"
"""The rule of a failure if the watchdog ended the run."""

DIED: Final = "died"
"""The rule of a failure if the process of the run ended without an outcome."""


@attrs.frozen
class Failure:
    """A rule that was broken, and the facts that contradict it."""

    rule: str
    """`invariant N`, `simulation`, `stuck`, `died`, or the name of the exception that ended the run."""
    title: str
    """The rule in words.  Shrinking keeps rule and title."""
    time_s: float
    """Virtual time since the run began."""
    facts: tuple[str, ...]
    """The facts that contradict each other."""
    events: tuple[str, ...] = ()
    """The last events of the nodes concerned, oldest first, for a human."""

    def is_of(self, other: Failure) -> bool:
        """Whether the same rule was broken; a rule without a number is compared by its title."""
        return self.rule == other.rule and (self.rule != "simulation" or self.title == other.title)

    def lines(self, seed: int) -> list[str]:
        """The lines of the report."""
        return [
            f"seed {seed}: {self.rule} ({self.title}) is violated at {self.time_s:.6f} s",
            *(f"  {fact}" for fact in self.facts),
            *(f"    {event}" for event in self.events),
        ]


@attrs.frozen
class Outcome:
    """The outcome of one run."""

    seed: int
    failure: Failure | None
    virtual_s: float
    real_s: float
    digest: str
    """The digest of everything that happened.  Equal runs have equal digests."""
    counts: Mapping[str, int] = attrs.field(factory=dict)
    """How often each of these happened: elections, acknowledged appends, faults by verb, and so on."""
    faults: Mapping[str, int] = attrs.field(factory=dict)
    """How many faults the plan has, by verb."""
    transitions: Mapping[str, int] = attrs.field(factory=dict)
    """How often each row of the transition table was taken, with the names in COVERED."""
    slowest_election_us: int | None = None
    """See RunCoverage."""
    slowest_election_at_us: int | None = None
    reached: frozenset[str] = frozenset()
    """What the run has reached, by the names in `reached.REACHABLE`."""

    @property
    def can_be_repeated(self) -> bool:
        """Whether the seed ends the same way if it is run again.  Not so if the real clock or the process ended the
        run."""
        return bool(self.digest) and (self.failure is None or self.failure.rule not in (STUCK, DIED))


_WITHIN_A_ROLE: Final = (Event.LEADER_MOVED, Event.FETCHED_FROM_LEADER, Event.LEADER_RESIGNED)
"""Events that change only a role's own state; no change of role is logged or published."""

COVERED: Final = tuple(
    f"{role.__name__} {event.name.lower()}" for role, event in TRANSITIONS if event not in _WITHIN_A_ROLE
)
"""Every row of the transition table that can be observed in a run, by role and event."""

_CAMPAIGNS: Final = ("Prospective", "Candidate")


@attrs.define
class RunCoverage:
    """Listens to the trace of one run."""

    transitions: Counter[str] = attrs.field(factory=Counter)
    """How often each row of COVERED was taken."""
    slowest_election_us: int | None = None
    """The longest time from the first campaign to the election of a leader; None if nobody was elected."""
    slowest_election_at_us: int | None = None
    """When that leader was elected, in virtual time since the run began."""
    _campaigning: dict[int, int] = attrs.field(factory=dict)
    """For each node that campaigns, since when it has known no leader."""

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
