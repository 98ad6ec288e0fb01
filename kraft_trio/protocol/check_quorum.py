"""Whether a leader still serves a majority; one that does not resigns (KIP-595 "Check quorum", KAFKA-15489).

Progress, not contact, keeps a leader.  A voter whose requests arrive and whose answers are lost fetches the same offset
again and again: a leader that counted that would stay, commit nothing, and keep the followers that it does reach from
electing another.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

SIGN_OF_LIFE_BYTES = 1
"""The size of a FetchSnapshot that is no download: a replica sends it while it installs a snapshot or has no room for
one, and only after its previous request was answered."""


@attrs.define
class ReplicaPosition:
    """How far the requests of one replica have got in one epoch, and whether the next one shows that it gets answers.

    Only an answer moves a replica on, so whoever asks for something later than ever before has had one since.
    """

    furthest_offset: int = -1
    """Exclusive: the highest offset it has fetched from."""
    _snapshot_id: OffsetAndEpoch | None = None
    _furthest_byte: int = -1

    def fetches(self, offset: int, leader_end_offset: int) -> bool:
        """Whether a valid Fetch from `offset` is contact: further than ever, or at the end of the leader's log.

        At the end of the leader's log a lost answer costs nothing; the next append shows whether answers arrive.
        """
        is_further = offset > self.furthest_offset
        self.furthest_offset = max(self.furthest_offset, offset)
        return is_further or offset >= leader_end_offset

    def fetches_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bool:
        """Whether a valid FetchSnapshot is contact: further in this snapshot than ever, of another one, or no download.

        A replica asks a few pieces ahead of their answers; a download that gets none soon repeats itself.
        """
        if max_bytes <= SIGN_OF_LIFE_BYTES:
            return True
        if snapshot_id != self._snapshot_id:
            self._snapshot_id, self._furthest_byte = snapshot_id, -1
        is_further = position > self._furthest_byte
        self._furthest_byte = max(self._furthest_byte, position)
        return is_further


def has_majority_contact(
    voters: VoterSet,
    leader: ReplicaKey,
    last_contact_ms: Mapping[ReplicaKey, float],
    now_ms: float,
    timeout_ms: float,
) -> bool:
    """Whether a majority of `voters` was in contact less than `timeout_ms` ago: see `ReplicaPosition`.

    The leader counts itself only if it is in the set, so a sole voter is always its own majority (S4).  Contacts of
    observers and of other incarnations of a voter count for nothing (invariant DeadIncarnations).
    """
    in_contact = {
        key.id
        for key, contact_ms in last_contact_ms.items()
        if voters.is_voter(key) and now_ms - contact_ms < timeout_ms
    }
    if voters.is_voter(leader):
        in_contact.add(leader.id)
    return voters.is_majority(in_contact)
