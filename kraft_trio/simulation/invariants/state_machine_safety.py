"""What state machines are given."""

from __future__ import annotations

from collections.abc import Sequence

from kraft_trio.actors.application.record_decoder import MOST_RECORDS
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.storage.batches.batch import Record


class StateMachineSafety(Invariant):
    """All replicas take the same log for committed.  A state machine is given exactly that log, in order, each record
    once per process; a large batch may come in parts.  So all state machines go through the same states (KIP-595 "High
    watermark").  Nothing is applied before it is known to be committed, and nothing is committed that is not in the
    log."""

    number = 8
    title = "state machines apply the same records in order, once: applied ≤ high watermark ≤ log end"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._values: dict[int, tuple[bytes | None, bytes | None, int]] = {}
        """By offset, the key and value, and the first node that applied them."""
        self._applied_ends: dict[ReplicaKey, int] = {}

    def started(self, replica: Replica) -> None:
        """A new process has a new state machine."""
        self._applied_ends.pop(replica.key, None)

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        key = replica.key
        if new > replica.log_end:
            self.violated(f"the high watermark of {key} is {new}", f"its log ends at {replica.log_end}", (key.id,))
        held, committed = replica.entry_ending_at(new), self.facts.committed.entry_ending_at(new)
        if held is not None and committed is not None and held.chain != committed.chain:
            fact = f"the log committed up to offset {new}, in epoch {committed.epoch} there, is another one"
            self.violated(fact, f"{key} takes its own for committed, in epoch {held.epoch} there", (key.id,))

    def applied(self, replica: Replica, base_offset: int, records: Sequence[Record]) -> None:
        node_id = replica.key.id
        end = records[-1].offset + 1
        if replica.high_watermark is None or end > replica.high_watermark:
            fact = f"the high watermark of {replica.key} is {replica.high_watermark}"
            self.violated(fact, f"it applies its log up to offset {end}", (node_id,))
        entry, start = self._next_to_apply(replica)
        offsets = [record.offset for record in records]
        if entry is None or offsets not in _pieces(entry, start, len(offsets)):
            expected = "no batch is left to apply" if entry is None else f"{_span(start, entry)} are next"
            self.violated(f"{replica.key} applies offsets {offsets}", expected, (node_id,))
        self._applied_ends[replica.key] = end
        for record in records:
            key, value, by = self._values.setdefault(record.offset, (record.key, record.value, node_id))
            if (key, value) != (record.key, record.value):
                fact = f"node {by} applied {value!r} with key {key!r} at offset {record.offset}"
                self.violated(fact, f"node {node_id} applies {record.value!r} with key {record.key!r}", (by, node_id))

    def loaded(self, replica: Replica, end_offset: int) -> None:
        key, high_watermark = replica.key, replica.high_watermark
        if high_watermark is None or end_offset > high_watermark:
            fact = f"the high watermark of {key} is {high_watermark}"
            self.violated(fact, f"its state machine loads a snapshot up to offset {end_offset}", (key.id,))
        applied = self._applied_ends.get(key, 0)
        if end_offset < applied:
            fact = f"{key} has applied its log up to offset {applied}"
            self.violated(fact, f"its state machine loads a snapshot up to offset {end_offset}", (key.id,))
        self._applied_ends[key] = end_offset

    def _next_to_apply(self, replica: Replica) -> tuple[Entry | None, int]:
        """The first batch of the application that is not wholly applied yet, and the next offset in it."""
        end = self._applied_ends.get(replica.key)
        if end is None:
            end = replica.entries[0].base_offset if replica.entries else 0
        entry = replica.entry_at(end)
        while entry is not None and entry.is_control:
            end = entry.next_offset
            entry = replica.entry_at(end)
        return entry, end if entry is None else max(end, entry.base_offset)


def _pieces(entry: Entry, start: int, count: int) -> list[list[int]]:
    """The offsets that may be applied next: the rest of the batch, or a part of a large one."""
    pieces = [list(range(start, entry.next_offset))]
    if entry.next_offset - entry.base_offset > MOST_RECORDS:
        pieces.append(list(range(start, min(start + count, entry.next_offset))))
    return pieces


def _span(start: int, entry: Entry) -> str:
    return f"those from {start} to {entry.next_offset - 1}"
