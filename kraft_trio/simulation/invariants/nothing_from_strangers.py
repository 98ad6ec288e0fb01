from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.roles import Candidate, Resigned, Unattached
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.simulation.network.message import Message


class NothingFromStrangers(Invariant):
    """Two clusters that reach each other by a wrong address, or a client that sends rubbish, must not be able to move a
    quorum (KIP-595: cluster ids).  All that a stranger could move has a legitimate first cause: an epoch begins with a
    Prospective that becomes Candidate in the next one, or with a leader that resigned and waited, and is nowhere
    before; a value is in the log because a client of ours asked for it.  And a request that names another cluster is
    answered with an error."""

    number = 23
    title = "a wrong cluster id or an unreadable request changes nothing"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._epochs: dict[ReplicaKey, int] = {}
        self._checked_end = 0

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        key = replica.key
        before = self._epochs.get(key, 0)
        self._epochs[key] = new.epoch
        newest = self.evidence.newest_epoch
        if new.epoch <= newest:
            return
        # A process may have ended between storing a new epoch and acting in it; then the next one begins with it.
        is_next = new.epoch == before + 1
        is_own = isinstance(new.role, Candidate) or (
            isinstance(new.role, Unattached) and (old is None or isinstance(old.role, Resigned))
        )
        if not (is_next and is_own):
            fact = f"nobody has been in an epoch above {newest}, and {key} was in epoch {before}"
            self.violated(fact, f"now it is {new.role}", (key.id,))

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        records = self.evidence.records
        if records.end <= self._checked_end or not self.cluster.checker.knows_every_write:
            return
        for offset, value in records.between(self._checked_end, records.end):
            if self.cluster.history.append_of(value) is None:
                fact = f"{value!r} is committed at offset {offset}"
                self.violated(fact, "no client has asked for it", (replica.key.id,))
        self._checked_end = records.end

    def message_sent(self, message: Message) -> None:
        """Only what strangers ask is looked at: a node's requests are decoded where they matter."""
        if message.is_request or message.request is None or self.evidence.replica_at(message.target) is not None:
            return
        node = self.evidence.replica_at(message.source)
        cluster_id = getattr(message.request.value, "cluster_id", None)
        if node is None or cluster_id is None or cluster_id == self.cluster.cluster_id:
            return
        error = getattr(message.value, "error", None)
        if error == ErrorCode.none:
            fact = f"{message.target} asked node {node.key.id} in the name of cluster {cluster_id!r}"
            self.violated(fact, f"it was answered without an error: {message.value}", (node.key.id,))
