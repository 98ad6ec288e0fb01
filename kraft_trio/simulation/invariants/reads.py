"""What a read behind a read barrier sees."""

from __future__ import annotations

import attrs

from kraft_trio.simulation.facts.history import BARRIER_READ, Operation, Outcome
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter


@attrs.frozen
class _Began:
    committed_end: int
    """Up to where (exclusive) any leader knew the log to be committed."""
    processes: int
    """How many processes the reading replica had had."""


class LinearizableReads(Invariant):
    """An append is acknowledged, and shown to any application, only once a leader knows that it is committed.  A read
    therefore sees every append that anyone could know of if its read index is at least the highest high watermark that
    any leader had when the read began.  The high watermark of the leader that gives the index is that high, unless a
    later leader has committed more.  A majority elected that leader, and shares a voter with the majority that confirms
    the read's round.  The shared voter confirmed after the read began, in the earlier epoch, so it had not voted in the
    later one before.

    When the barrier returns, the reading replica has applied all that is below the read index."""

    number = 25
    title = "a read behind a barrier sees every append that was acknowledged before it began"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._under_way: dict[str, _Began] = {}

    def operation(self, operation: Operation) -> None:
        if operation.kind != BARRIER_READ:
            return
        assert operation.via is not None, "only a node has a barrier"
        key = self.facts.present[operation.via].key
        processes = self.facts.processes.get(key, 0)
        if operation.is_pending:
            self._under_way[operation.name] = _Began(self.facts.committed.end, processes)
            return
        began = self._under_way.pop(operation.name)
        if operation.outcome is not Outcome.OK:
            return
        assert operation.end_offset is not None
        if operation.end_offset < began.committed_end:
            fact = f"everything below offset {began.committed_end} was committed when {operation.name} began"
            self.violated(fact, f"{operation} has the read index {operation.end_offset}", (operation.via,))
        applied_end = self.facts.present[operation.via].applied_end
        last = self.facts.records.end_of_values(operation.end_offset)
        if processes == began.processes and applied_end < last:
            fact = f"node {operation.via} has applied only what is below offset {applied_end}"
            self.violated(fact, f"{operation} ended, and a value ends at offset {last}", (operation.via,))
