from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.simulation.invariants.one_leader_per_epoch import named_leader
from kraft_trio.storage.disk import join
from kraft_trio.storage.partition_files import QUORUM_STATE

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Replica


class EpochsNeverFall(Invariant):
    """Epochs order everything: a node that went back to a lower one could vote in it again and follow a leader that
    has been replaced (KIP-595 "Quorum state").  That holds over restarts only if what a node acts by is on its device
    first; so once it publishes a role, quorum-state says epoch, leader and vote of that role."""

    number = 2
    title = "a replica's epoch never falls, and it stores the epoch, leader and vote before it acts on them"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._published: dict[ReplicaKey, int] = {}
        self._stored: dict[ReplicaKey, int] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        key = replica.key
        highest = self._published.get(key, 0)
        if new.epoch < highest:
            self.violated(f"{key} was in epoch {highest}", f"now it is in epoch {new.epoch}", (key.id,))
        self._published[key] = max(highest, new.epoch)
        self._check_stored(replica, new.role)

    def _check_stored(self, replica: Replica, role: Role) -> None:
        key = replica.key
        fact = f"{key} acts as {role}"
        if replica.durable_election_state() is None:
            path = join(replica.machine.partition_path, QUORUM_STATE)
            if replica.machine.disk.durable_bytes(path) is None:
                self.violated(fact, "its device holds no quorum-state", (key.id,))
            return  # Damaged, which is a fault of the device and no doing of the node's.
        stored = self.evidence.stored[key]
        highest = self._stored.get(key, 0)
        if stored.epoch < highest:
            self.violated(f"{key} had stored epoch {highest}", f"now it has stored epoch {stored.epoch}", (key.id,))
        self._stored[key] = max(highest, stored.epoch)
        vote = given_vote(role, key)
        is_vote_stored = (
            stored.voted_key is None if vote is None else self.evidence.is_vote_for(stored.voted_key, vote, key)
        )
        if isinstance(role, Leader | Resigned):
            # Its vote for itself is implied by its leadership.
            is_vote_stored = is_vote_stored or stored.voted_key is None
        if (stored.epoch, stored.leader_id) != (role.epoch, named_leader(role, key.id)) or not is_vote_stored:
            self.violated(fact, f"its device holds {stored}", (key.id,))


def given_vote(role: Role, own_key: ReplicaKey) -> ReplicaKey | None:
    """For whom a replica in that role has voted in its epoch."""
    match role:
        case Candidate() | Leader() | Resigned():
            return own_key
        case Unattached() | Prospective() | Follower():
            return role.voted
