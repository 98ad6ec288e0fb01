"""What clients and strangers see."""

from __future__ import annotations

from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import Candidate, Resigned, Unattached
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.facts.history import (
    ADD_VOTER,
    BARRIER_READ,
    CANCEL_REASSIGNMENT,
    REASSIGN,
    UPGRADE,
    Operation,
    Outcome,
)
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.voter_sets import is_member, text_of
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.simulation.invariants.linearizability import Contradiction, contradictions, effect_contradiction
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.error_codes import ErrorCode


class AcknowledgedWrites(Invariant):
    """The log is the linearization: an append takes effect at its offsets once the high watermark passes them.  An
    acknowledged append is therefore committed already, at the offsets that were answered, behind everything that was
    completed before it began.  A failed one is nowhere.  No value is in the log twice, because the leader recognizes a
    retry (KIP-98).  A read returns the committed values without a gap; a linearizable one returns all values that were
    acknowledged, or read by anyone, before it began.

    A voter change that was acknowledged was in force in some committed set since the request: the newest one at that
    time, or a later one (KIP-853 "AddVoter", step 9).  The first case arises if a leader was lost and the next one
    finds the change made already.  A target that was acknowledged led the way in such a set, or was reached by it
    (KIP-642).  An upgrade has brought the voters into the log.

    Effects are checked in the step in which an operation ends or its value is committed.  The whole history is checked
    at the end."""

    number = 21
    title = "acknowledged writes are never lost or duplicated, and histories are linearizable"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._checked_end = 0
        """Up to where (exclusive) the committed values have been compared with the operations that appended them."""
        self._completed_end = 0
        """The highest place (exclusive) of an operation that has succeeded."""
        self._floors: dict[str, int] = {}
        """For each operation under way, `_completed_end` when it began."""
        self._sets_before: dict[str, int] = {}
        """For each operation under way, how many voter sets had been replaced when it began."""

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        records = self.facts.records
        if records.end <= self._checked_end:
            return
        fresh = records.between(self._checked_end, records.end)
        self._checked_end = records.end
        for _, value in fresh:
            operation = self.facts.history.append_of(value)
            if operation is not None and not operation.is_pending:
                self._report(operation, effect_contradiction(operation, records))

    def operation(self, operation: Operation) -> None:
        if operation.is_pending:
            self._floors[operation.name] = self._completed_end
            self._sets_before[operation.name] = len(self._committed_sets()) - 1
            return
        floor = self._floors.pop(operation.name, 0)
        self._report(operation, effect_contradiction(operation, self.facts.records))
        sets_before = self._sets_before.pop(operation.name, 0)
        if operation.outcome is Outcome.OK:
            self._check_order(operation, floor)
            self._check_change(operation, sets_before)

    def _check_order(self, operation: Operation, floor: int) -> None:
        """LinearizableReads checks the reads behind a barrier, and demands more of them."""
        if operation.end_offset is not None:
            # Two ends without a value between them are one place.
            first = end = self.facts.records.end_of_values(operation.end_offset)
        elif operation.offsets:
            first, end = operation.offsets[0], operation.offsets[-1] + 1
        else:
            return
        if operation.is_linearizable and first < floor and operation.kind != BARRIER_READ:
            fact = f"an operation with its effect below offset {floor} had ended before {operation.name} began"
            self.violated(fact, f"{operation} took effect at {first}", _nodes(operation))
        self._completed_end = max(self._completed_end, end)

    def _check_change(self, operation: Operation, sets_before: int) -> None:
        if operation.kind == UPGRADE and not (self.facts.kraft_version or self.facts.committed.voter_sets):
            self.violated(str(operation), "no voters are in the committed log yet")
        if operation.kind in (REASSIGN, CANCEL_REASSIGNMENT):
            self._check_target(operation, sets_before)
        key = operation.voter
        if key is None:
            return
        since = self._committed_sets()[sets_before:]
        if not any(is_member(voters, key) is (operation.kind == ADD_VOTER) for voters in since):
            sets = ", ".join(map(text_of, since))
            self.violated(str(operation), f"the voter sets committed since it was asked for are {sets}", (key.id,))

    def _check_target(self, operation: Operation, sets_before: int) -> None:
        """Some set that was in force since must be on the way to the ids that were asked for, or have them."""
        asked = tuple(map(int, operation.subject.split()))
        logged = (tuple(key.id for key in entry.target) for entry in self.facts.committed.voter_sets)
        since = list(zip(self._committed_sets(), [(), *logged], strict=True))[sets_before:]
        if not any(target == asked or (not target and voters.ids == asked) for voters, target in since):
            ways = "; ".join(f"{text_of(voters)} on the way to {target or 'nowhere'}" for voters, target in since)
            self.violated(str(operation), f"the voter sets committed since it was asked for are {ways}")

    def _committed_sets(self) -> list[VoterSet]:
        """Every committed voter set, oldest first, from the initial one on."""
        logged = (entry.voters for entry in self.facts.committed.voter_sets)
        return [self.facts.initial_voters, *(voters for voters in logged if voters is not None)]

    def finished(self) -> None:
        for contradiction in contradictions(self.facts.history.operations, self.facts.records):
            self.violated(contradiction.fact, contradiction.other)

    def _report(self, operation: Operation, contradiction: Contradiction | None) -> None:
        if contradiction is not None:
            self.violated(contradiction.fact, contradiction.other, _nodes(operation))


def _nodes(operation: Operation) -> tuple[int, ...]:
    return () if operation.via is None else (operation.via,)


class NothingFromStrangers(Invariant):
    """Two clusters may reach each other by a wrong address, and a client may send rubbish.  Neither may move a quorum
    (KIP-595: cluster ids).  Everything that a stranger could move has a lawful first cause.  An epoch begins with a
    Prospective that becomes Candidate, or with a leader that resigned and waited.  A value is in the log because a
    client of the run asked for it.  A request that names another cluster is answered with an error."""

    number = 23
    title = "a wrong cluster id or an unreadable request changes nothing"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._epochs: dict[ReplicaKey, int] = {}
        self._checked_end = 0

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        key = replica.key
        before = self._epochs.get(key, 0)
        self._epochs[key] = new.epoch
        newest = self.facts.newest_epoch
        if new.epoch <= newest:
            return
        # A process may end after it has stored a new epoch and before it acts in it; then the next process begins with
        # it.
        is_next = new.epoch == before + 1
        is_own = isinstance(new.role, Candidate) or (
            isinstance(new.role, Unattached) and (old is None or isinstance(old.role, Resigned))
        )
        if not (is_next and is_own):
            fact = f"nobody has been in an epoch above {newest}, and {key} was in epoch {before}"
            self.violated(fact, f"now it is {new.role}", (key.id,))

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        records = self.facts.records
        if records.end <= self._checked_end or not self.facts.history.is_complete:
            return
        for offset, value in records.between(self._checked_end, records.end):
            if self.facts.history.append_of(value) is None:
                fact = f"{value!r} is committed at offset {offset}"
                self.violated(fact, "no client has asked for it", (replica.key.id,))
        self._checked_end = records.end

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        return not is_request

    def message_sent(self, message: Message) -> None:
        """Look only at answers to strangers: other invariants decode the requests of nodes."""
        if message.request is None or self.facts.replica_at(message.target) is not None:
            return
        node = self.facts.replica_at(message.source)
        cluster_id = getattr(message.request.value, "cluster_id", None)
        if node is None or cluster_id is None or cluster_id == self.facts.cluster_id:
            return
        error = getattr(message.value, "error", None)
        if error == ErrorCode.none:
            fact = f"{message.target} asked node {node.key.id} in the name of cluster {cluster_id!r}"
            self.violated(fact, f"it was answered without an error: {message.value}", (node.key.id,))
