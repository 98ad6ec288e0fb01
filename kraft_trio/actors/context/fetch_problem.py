"""Why a node does not get the leader's records, for its operator."""

from __future__ import annotations

import attrs


@attrs.define
class FetchProblem:
    """Why this node cannot fetch, across its stays as a follower.  FollowerReplication writes it; the status reads it.

    A voter that cannot fetch soon follows nobody, and would forget why if the reason ended with that stay.
    """

    reason: str | None = None
    """Why this node takes no records from the leader; None once it has taken what a Fetch or FetchSnapshot brought."""
    since_s: float | None = None
    """When these failures began, on Trio's clock; None without any."""

    def failed(self, reason: str, now_s: float) -> None:
        self.reason = reason
        if self.since_s is None:
            self.since_s = now_s

    def ended(self) -> None:
        self.reason = self.since_s = None
