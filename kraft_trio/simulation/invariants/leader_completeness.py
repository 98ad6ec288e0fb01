from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.facts.history import Outcome
from kraft_trio.simulation.invariants.epochs_never_fall import given_vote
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.history import Operation
    from kraft_trio.simulation.facts.replica import Entry, Replica


class LeaderCompleteness(Invariant):
    """A committed record is durable on a majority of its voter set; a later leader has the votes of a majority, and any
    two share a replica that gives its vote only to a log that reaches as far as its own (KIP-595 "Vote").  So whoever
    is elected in a higher epoch holds every record committed in lower ones, and with them every acknowledged one.  It
    holds also where the leader of the lower epoch does not know yet that it was replaced, and commits on."""

    number = 7
    title = "a leader holds every record that was committed or acknowledged before its election"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._leaders: dict[int, Replica] = {}
        self._newest_epoch = 0
        """The highest epoch that had a leader."""
        self._voted: set[tuple[ReplicaKey, int]] = set()
        """Which replica has given its vote in which epoch."""
        self._acknowledged: dict[int, tuple[int, str]] = {}
        """By the highest epoch with a leader at that time: up to which offset was acknowledged, and to whom."""

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        vote = given_vote(new.role, replica.key)
        if vote is not None and vote.id != replica.key.id:
            self._check_vote(replica, new.epoch, vote)
        if not isinstance(new.role, Leader):
            return
        self._leaders[new.epoch] = replica
        self._newest_epoch = max(self._newest_epoch, new.epoch)
        committed = self.evidence.committed.last_entry_below(self.evidence.committed.end_before_epoch(new.epoch))
        if committed is not None:
            self._check_holds(replica, new.epoch, committed)
        for epoch, (end, operation) in self._acknowledged.items():
            if epoch < new.epoch and replica.log_end < end:
                fact = f"{operation} was acknowledged, up to offset {end}"
                other = f"{replica.key} leads epoch {new.epoch} with a log up to offset {replica.log_end}"
                self.violated(fact, other, (replica.key.id,))

    def _check_vote(self, replica: Replica, epoch: int, vote: ReplicaKey) -> None:
        """When the vote is given: the log ends then where it ended when the decision was made (rule R1)."""
        if (replica.key, epoch) in self._voted:
            return
        self._voted.add((replica.key, epoch))
        own = (replica.entries[-1].epoch if replica.entries else 0, replica.log_end)
        requests = self.evidence.requests_for(replica.key, epoch, vote)
        ends = [(request.last_offset_epoch, request.last_offset) for request in requests]
        if ends and max(ends) < own:
            fact = f"{replica.key} has a log up to offset {own[1]}, in epoch {own[0]} there"
            other = f"it votes for {vote} in epoch {epoch}, whose log ends at {max(ends)[1]} in epoch {max(ends)[0]}"
            self.violated(fact, other, (replica.key.id, vote.id))

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        if not replica.is_leader or replica.view is None or replica.view.epoch >= self._newest_epoch:
            return
        committed = self.evidence.committed.last_entry_below(new)
        for epoch, leader in self._leaders.items():
            is_leading = leader.is_leader and leader.view is not None and leader.view.epoch == epoch
            if epoch > replica.view.epoch and is_leading and committed is not None:
                self._check_holds(leader, epoch, committed)

    def _check_holds(self, leader: Replica, epoch: int, committed: Entry) -> None:
        held = leader.entry_ending_at(committed.next_offset)
        is_covered_by_snapshot = bool(leader.entries) and committed.next_offset <= leader.entries[0].base_offset
        if (held is None and not is_covered_by_snapshot) or (held is not None and held.chain != committed.chain):
            fact = f"the log is committed up to offset {committed.next_offset}, in epoch {committed.epoch} there"
            its = "no batch ends there" if held is None else f"its batch there, of epoch {held.epoch}, is another one"
            other = f"{leader.key} leads epoch {epoch} with a log up to offset {leader.log_end}, and {its}"
            self.violated(fact, other, (leader.key.id,))

    def operation(self, operation: Operation) -> None:
        if operation.outcome is not Outcome.OK or not operation.offsets or operation.from_offset is not None:
            return
        end = operation.offsets[-1] + 1
        if end > self._acknowledged.get(self._newest_epoch, (0, ""))[0]:
            self._acknowledged[self._newest_epoch] = (end, operation.name)
