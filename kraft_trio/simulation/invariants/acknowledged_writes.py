from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.facts.history import ADD_VOTER, UPGRADE, Outcome
from kraft_trio.simulation.facts.membership import is_member, text_of
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.simulation.invariants.linearizability import contradictions, effect_contradiction

if TYPE_CHECKING:
    from kraft_trio.protocol.voter_set import VoterSet
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.history import Operation
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.simulation.invariants.linearizability import Contradiction


class AcknowledgedWrites(Invariant):
    """The log is the linearization: an append takes effect at its offsets, once the high watermark passes them.  So an
    acknowledged one is committed already, where it was told, behind all that was completed before it began; one that
    failed is nowhere, and no value is there twice (KIP-98: a retry is recognized).  A read gives the committed values
    without a gap; a linearizable one all of them that were acknowledged, or read by anybody, before it began.

    A voter change that was acknowledged held in some committed set since it was asked for: one that was committed then,
    or the one that was the newest when it was asked for (KIP-853 "AddVoter", step 9).  The latter is told where a
    leader was lost and the next one finds nothing left to do.  An upgrade has brought the voters into the log.

    What can be said in the step in which an operation ends, or its value is committed, is said then; the whole history
    is looked at in the end."""

    number = 21
    title = "acknowledged writes are never lost or duplicated, and histories are linearizable"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._checked_end = 0
        """Exclusive: the committed values below it have been held against the operations that appended them."""
        self._completed_end = 0
        """The highest place of an operation that has ended well, exclusive."""
        self._floors: dict[str, int] = {}
        """What that was when an operation, now under way, began."""
        self._sets_before: dict[str, int] = {}
        """How many voter sets had been replaced when a voter change, now under way, was asked for."""

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        records = self.evidence.records
        if records.end <= self._checked_end:
            return
        fresh = records.between(self._checked_end, records.end)
        self._checked_end = records.end
        for _, value in fresh:
            operation = self.cluster.history.append_of(value)
            if operation is not None and not operation.is_pending:
                self._report(operation, effect_contradiction(operation, records))

    def operation(self, operation: Operation) -> None:
        if operation.is_pending:
            self._floors[operation.name] = self._completed_end
            self._sets_before[operation.name] = len(self._committed_sets()) - 1
            return
        floor = self._floors.pop(operation.name, 0)
        self._report(operation, effect_contradiction(operation, self.evidence.records))
        sets_before = self._sets_before.pop(operation.name, 0)
        if operation.outcome is Outcome.OK:
            self._check_order(operation, floor)
            self._check_change(operation, sets_before)

    def _check_order(self, operation: Operation, floor: int) -> None:
        if operation.end_offset is not None:
            # Where no value stands between two ends, they are one place.
            first = end = self.evidence.records.end_of_values(operation.end_offset)
        elif operation.offsets:
            first, end = operation.offsets[0], operation.offsets[-1] + 1
        else:
            return
        if operation.is_linearizable and first < floor:
            fact = f"an operation with its effect below offset {floor} had ended before {operation.name} began"
            self.violated(fact, f"{operation} took effect at {first}", _nodes(operation))
        self._completed_end = max(self._completed_end, end)

    def _check_change(self, operation: Operation, sets_before: int) -> None:
        if operation.kind == UPGRADE and not (self.cluster.setup.kraft_version or self.evidence.committed.voter_sets):
            self.violated(str(operation), "no voters are in the committed log yet")
        key = operation.voter
        if key is None:
            return
        since = self._committed_sets()[sets_before:]
        if not any(is_member(voters, key) is (operation.kind == ADD_VOTER) for voters in since):
            sets = ", ".join(map(text_of, since))
            self.violated(str(operation), f"the voter sets committed since it was asked for are {sets}", (key.id,))

    def _committed_sets(self) -> list[VoterSet]:
        """Every voter set that has been committed, oldest first, the initial one included."""
        logged = (entry.voters for entry in self.evidence.committed.voter_sets)
        return [self.cluster.initial_voters, *(voters for voters in logged if voters is not None)]

    def finished(self) -> None:
        for contradiction in contradictions(self.cluster.history.operations, self.evidence.records):
            self.violated(contradiction.fact, contradiction.other)

    def _report(self, operation: Operation, contradiction: Contradiction | None) -> None:
        if contradiction is not None:
            self.violated(contradiction.fact, contradiction.other, _nodes(operation))


def _nodes(operation: Operation) -> tuple[int, ...]:
    return () if operation.via is None else (operation.via,)
