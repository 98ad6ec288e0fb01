"""Whether a leader still serves a majority; one that does not resigns (KIP-595 "Leader Progress Timeout", KAFKA-15489).

Progress keeps a leader, not contact (docs/explanation/protocol.md#progress-keeps-a-leader).  A voter that gets no
responses fetches the same offset again and again.  If the leader counted that, it would stay and commit nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

SIGN_OF_LIFE_BYTES = 1
"""The size of a FetchSnapshot that shows only that its sender lives.

A replica sends it while it installs a snapshot or has no room for one, after the response to its previous request."""


@attrs.define
class ReplicaPosition:
    """The furthest position that one replica has asked for in one epoch.

    Only a response moves a replica on, so a request for something later proves that a response arrived.
    """

    furthest_offset: int = -1
    """The highest offset that it has fetched from."""
    _snapshot_id: OffsetAndEpoch | None = None
    _furthest_byte: int = -1

    def fetches(self, offset: int, leader_end_offset: int) -> bool:
        """Whether a valid Fetch from `offset` counts: it is further than before, or at the end of the leader's log.

        At the end of the log a lost response costs nothing; the next append shows whether responses arrive.
        """
        is_further = offset > self.furthest_offset
        self.furthest_offset = max(self.furthest_offset, offset)
        return is_further or offset >= leader_end_offset

    def fetches_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bool:
        """Whether a valid FetchSnapshot counts: further in this snapshot, for another one, or only a sign of life.

        A replica asks for a few pieces ahead.  A download without responses soon repeats its requests.
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
    """Whether a majority of `voters` was in contact less than `timeout_ms` ago (see `ReplicaPosition`).

    The leader counts itself if it is in the set, so a sole voter is always its own majority (scenario S4).  Observers
    and other incarnations of a voter do not count (invariant DeadIncarnations).
    """
    in_contact = {
        key.id
        for key, contact_ms in last_contact_ms.items()
        if voters.is_voter(key) and now_ms - contact_ms < timeout_ms
    }
    if voters.is_voter(leader):
        in_contact.add(leader.id)
    return voters.is_majority(in_contact)
