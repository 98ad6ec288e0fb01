from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.roles import Follower, Leader, Prospective, Resigned, Role, Unattached
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Replica


class OneLeaderPerEpoch(Invariant):
    """A leader needs the votes of a majority of its set, each replica votes once in an epoch, and any two majorities
    of consecutive sets share a replica; so an epoch has one leader at most (KIP-595 "Leader election").  All others
    learn of it from that leader, or from somebody who did, so all name the same one: in memory, and in what they
    stored."""

    number = 1
    title = "each epoch has at most one leader, and all replicas agree on it"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._leaders: dict[int, ReplicaKey] = {}
        self._named: dict[int, tuple[int, str, int]] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        if isinstance(new.role, Leader):
            known = self._leaders.setdefault(new.epoch, replica.key)
            if known != replica.key:
                fact = f"{known} was elected leader of epoch {new.epoch}"
                self.violated(fact, f"{replica.key} leads it too", (known.id, replica.key.id))
        self._names(replica, new.epoch, named_leader(new.role, replica.key.id), "names")
        stored = self.evidence.stored.get(replica.key)
        if stored is not None:
            self._names(replica, stored.epoch, stored.leader_id, "has stored")

    def _names(self, replica: Replica, epoch: int, leader_id: int | None, how: str) -> None:
        if leader_id is None:
            return
        node_id = replica.key.id
        known_id, known_how, by = self._named.setdefault(epoch, (leader_id, how, node_id))
        if known_id != leader_id:
            fact = f"node {by} {known_how} {known_id} as the leader of epoch {epoch}"
            self.violated(fact, f"node {node_id} {how} {leader_id}", (known_id, leader_id, by, node_id))


def named_leader(role: Role, own_id: int) -> int | None:
    """Whom a role of that node names as the leader of its epoch."""
    match role:
        case Leader() | Resigned():
            return own_id
        case Unattached() | Prospective() | Follower():
            return role.leader_id
        case _:
            return None
