"""Whether a node may have the voter removed that its own id had before its disk was replaced (KIP-853 "Auto joining").

One id cannot be a voter twice, so the old incarnation has to go before the new one can come, and in between the quorum
has one voter less.  The new one must therefore be fit first, by the leader's word, and the old one gone.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kraft_trio.protocol.types import ReplicaKey

UNKNOWN = -1


@attrs.frozen
class DescribedReplica:
    """What the leader says of a replica; times by its own clock, UNKNOWN for never."""

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
    """Why the voter with the id of `own` must not be removed yet; None if it may.  `now_ms` is by the leader's clock.

    `lately_ms` is how long ago counts as now: the fetch timeout.
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
