"""Whether a leader still reaches a majority; one that does not resigns (KIP-595 "Check quorum", KAFKA-15489)."""

from __future__ import annotations

from collections.abc import Mapping

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet


def has_majority_contact(
    voters: VoterSet,
    leader: ReplicaKey,
    last_contact_ms: Mapping[ReplicaKey, float],
    now_ms: float,
    timeout_ms: float,
) -> bool:
    """Whether a majority of `voters` sent a valid Fetch or FetchSnapshot less than `timeout_ms` ago.

    The leader counts itself only if it is in the set, so a sole voter is always its own majority (S4).  Contacts of
    observers and of other incarnations of a voter count for nothing (invariant 22).
    """
    in_contact = {
        key.id
        for key, contact_ms in last_contact_ms.items()
        if voters.is_voter(key) and now_ms - contact_ms < timeout_ms
    }
    if voters.is_voter(leader):
        in_contact.add(leader.id)
    return voters.is_majority(in_contact)
