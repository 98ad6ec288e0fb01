from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Entry, Replica


class LogMatching(Invariant):
    """One leader appends in an epoch, at each offset once, and a follower takes a batch only behind one that the leader
    has too (KIP-595 "Log reconciliation").  So logs that have one offset and epoch in common are equal up to there,
    byte for byte; and as leaders come in the order of their epochs, epochs never decrease along a log.

    An entry's chain is a digest of all bytes up to its end: one comparison stands for the whole prefix."""

    number = 5
    title = "logs that share an offset and epoch are equal up to there, and epochs never fall along a log"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._chains: dict[tuple[int, int], tuple[bytes, int]] = {}
        """The digest of the log up to an offset (exclusive) whose last record is of an epoch, and who had it first."""

    def started(self, replica: Replica) -> None:
        """What it recovered was checked before, if its last entry was."""
        if replica.entries and (replica.log_end, replica.entries[-1].epoch) not in self._chains:
            for before, entry in zip(replica.entries, replica.entries[1:], strict=False):
                self._check_epochs(replica, before, entry)
        for entry in replica.entries[-1:]:
            self._check(replica, entry)

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        before = replica.entry_ending_at(entries[0].base_offset)
        for entry in entries:
            if before is not None:
                self._check_epochs(replica, before, entry)
            self._check(replica, entry)
            before = entry

    def _check(self, replica: Replica, entry: Entry) -> None:
        node_id = replica.key.id
        known, by = self._chains.setdefault((entry.next_offset, entry.epoch), (entry.chain, node_id))
        if known != entry.chain:
            place = f"offset {entry.next_offset}, where epoch {entry.epoch} is the last"
            fact = f"the log of node {by} up to {place}, has digest {known.hex()}"
            self.violated(fact, f"that of node {node_id} has {entry.chain.hex()}", (by, node_id))

    def _check_epochs(self, replica: Replica, before: Entry, entry: Entry) -> None:
        if entry.epoch < before.epoch:
            fact = f"the batch at offset {before.base_offset} in the log of {replica.key} is of epoch {before.epoch}"
            self.violated(fact, f"the one at {entry.base_offset} is of epoch {entry.epoch}", (replica.key.id,))
