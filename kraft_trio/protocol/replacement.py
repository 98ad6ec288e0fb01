"""Decides when auto-join may remove the voter that had this node's id before its disk was replaced (KIP-853).

An id cannot be a voter twice, so the old incarnation is removed before the new one is added.  Meanwhile the quorum has
one voter less.  So the leader must first report that the new incarnation has caught up and the old one is silent.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kraft_trio.protocol.types import ReplicaKey

UNKNOWN = -1


@attrs.frozen
class DescribedReplica:
    """A replica as the leader describes it.  Times are by the leader's clock; UNKNOWN means never."""

    key: ReplicaKey
    last_fetch_ms: int
    last_caught_up_ms: int


def objection_to_replacing(
    own: ReplicaKey,
    voters: Iterable[DescribedReplica],
    observers: Iterable[DescribedReplica],
    now_ms: int,
    lately_ms: int,
) -> str | None:
    """Why the voter with the id of `own` must not be removed yet, or None if it may be removed.

    `now_ms` is by the leader's clock.  `lately_ms` is the age up to which a time counts as now: the fetch timeout.
    """
    new = next((replica for replica in observers if replica.key == own), None)
    if new is None:
        return f"the leader has not heard of {own}"
    if new.last_caught_up_ms == UNKNOWN or now_ms - new.last_caught_up_ms > lately_ms:
        return f"{own} has not caught up with the leader"
    old = next((replica for replica in voters if replica.key.id == own.id), None)
    if old is not None and old.last_fetch_ms != UNKNOWN and now_ms - old.last_fetch_ms <= lately_ms:
        return f"{old.key} still fetches from the leader: two processes have the id {own.id}, unless it has just ended"
    return None
