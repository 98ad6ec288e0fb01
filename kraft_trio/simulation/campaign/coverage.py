"""What a run has been through: which transitions of the table were taken, and how long elections took."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from kraft_trio.protocol.roles import TRANSITIONS, Event
from kraft_trio.tracing.events import TraceEvent

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
