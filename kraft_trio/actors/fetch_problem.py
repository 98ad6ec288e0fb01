"""Why a node does not get the leader's records, for its operator."""

from __future__ import annotations

import attrs


@attrs.define
class FetchProblem:
    """One for a node, and for all of its stays as a follower.  FollowerReplication writes it; the node's status reads.

    A voter that cannot fetch soon follows nobody, and would forget why if the reason ended with that stay.
    """

    reason: str | None = None
    """Why the newest Fetch failed; None once the leader has answered one."""
