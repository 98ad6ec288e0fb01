"""The content of logs."""

from __future__ import annotations

from collections.abc import Sequence

from kraft_trio.errors import ProtocolError
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import Follower, Leader
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.history import Operation, Outcome
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.invariants.epochs import given_vote
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.storage.batches.batch import check_crc, peek_header


class LogMatching(Invariant):
    """One leader appends in an epoch, at each offset once, and a follower takes a batch only after one that the leader
    also has (KIP-595 "Log reconciliation").  So logs that share an offset and epoch are equal up to there, byte for
    byte.  Leaders follow each other in the order of their epochs, so epochs never decrease along a log.

    The chain of an entry is a digest of all bytes up to its end: one comparison covers the whole prefix."""

    number = 5
    title = "logs that share an offset and epoch are equal up to there, and epochs never fall along a log"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._chains: dict[tuple[int, int], tuple[bytes, int]] = {}
        """By end offset (exclusive) and last epoch, the digest of such a log and the node that had it first."""

    def started(self, replica: Replica) -> None:
        """If the last entry was checked before, so was the whole log."""
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


class LeaderAppendsInItsEpoch(Invariant):
    """The epoch of a record says which leader made it, and orders it among all others.  So a leader writes its own
    epoch into what it appends, and truncates nothing.  No other replica makes records: of each epoch up to its own, a
    follower holds what the leader of that epoch appended, and nothing else (KIP-595 "Leader")."""

    number = 6
    title = "a leader only appends, in its own epoch, and only leaders create records"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._made: set[bytes] = set()
        """The chains of the entries that leaders have appended."""
        self._leaders: dict[int, ReplicaKey] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if isinstance(new.role, Leader):
            self._leaders.setdefault(new.epoch, replica.key)

    def started(self, replica: Replica) -> None:
        """Leaders have made what it recovered, perhaps the replica itself just before it crashed."""
        for entry in reversed(replica.entries):
            if entry.chain in self._made:
                break
            if self._leaders.get(entry.epoch) != replica.key or not _is_whole(replica, entry):
                fact = f"{replica.key} has recovered a batch of epoch {entry.epoch} at offset {entry.base_offset}"
                self.violated(fact, "no leader has made such a log up to there", (replica.key.id,))
                break
        self._made.update(entry.chain for entry in replica.entries[-1:])

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        key, view = replica.key, replica.view
        for entry in entries:
            if by_leader:
                if view is None or entry.epoch != view.epoch:
                    self.violated(f"{key} is {_role(view)}", f"it makes {_batch(entry)}", (key.id,))
                self._made.add(entry.chain)
                continue
            if view is None or not isinstance(view.role, Follower) or entry.epoch > view.epoch:
                self.violated(f"{key} is {_role(view)}", f"it appends {_batch(entry)}", (key.id,))
            if entry.chain not in self._made:
                self.violated(f"{key} appends {_batch(entry)}", "no leader has made such a log up to there", (key.id,))

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        view = replica.view
        if removed and (view is None or not isinstance(view.role, Follower)):
            fact = f"{replica.key} truncates its log to offset {offset}"
            self.violated(fact, f"it is {_role(view)}, and only a follower does", (replica.key.id,))


def _role(view: QuorumView | None) -> str:
    return "nobody yet" if view is None else str(view.role)


def _batch(entry: Entry) -> str:
    return f"a batch of epoch {entry.epoch} at offset {entry.base_offset}"


def _is_whole(replica: Replica, entry: Entry) -> bool:
    """Whether the batch is as it was written, by its checksum."""
    content = replica.device.content.peek(entry.path) or b""
    batch = content[entry.position : entry.position + entry.size]
    try:
        check_crc(batch, 0, peek_header(batch))
    except ProtocolError:
        return False
    return True


class LeaderCompleteness(Invariant):
    """A committed record is durable on a majority of its voter set, and a later leader has the votes of a majority.
    The two share a replica, which votes only for a log that reaches as far as its own (KIP-595 "Vote").  So the leader
    of a higher epoch holds every record that was committed in lower ones, and every acknowledged record.  That also
    holds while the leader of a lower epoch does not know that it was replaced, and keeps committing."""

    number = 7
    title = "a leader holds every record that was committed or acknowledged before its election"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._leaders: dict[int, Replica] = {}
        self._newest_epoch = 0
        """The highest epoch that had a leader."""
        self._voted: set[tuple[ReplicaKey, int]] = set()
        """The replicas whose vote has been checked, with the epoch."""
        self._acknowledged: dict[int, tuple[int, str]] = {}
        """By the newest epoch with a leader at that time: the end of what was acknowledged, and the operation."""

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
        committed = self.facts.committed.last_entry_below(self.facts.committed.end_before_epoch(new.epoch))
        if committed is not None:
            self._check_holds(replica, new.epoch, committed)
        for epoch, (end, operation) in self._acknowledged.items():
            if epoch < new.epoch and replica.log_end < end:
                fact = f"{operation} was acknowledged, up to offset {end}"
                other = f"{replica.key} leads epoch {new.epoch} with a log up to offset {replica.log_end}"
                self.violated(fact, other, (replica.key.id,))

    def _check_vote(self, replica: Replica, epoch: int, vote: ReplicaKey) -> None:
        """When a vote is given, the log must end where it did when the vote was decided (rule R1)."""
        if (replica.key, epoch) in self._voted:
            return
        self._voted.add((replica.key, epoch))
        own = (replica.entries[-1].epoch if replica.entries else 0, replica.log_end)
        requests = self.facts.requests_for(replica.key, epoch, vote)
        ends = [(request.last_offset_epoch, request.last_offset) for request in requests]
        if ends and max(ends) < own:
            fact = f"{replica.key} has a log up to offset {own[1]}, in epoch {own[0]} there"
            other = f"it votes for {vote} in epoch {epoch}, whose log ends at {max(ends)[1]} in epoch {max(ends)[0]}"
            self.violated(fact, other, (replica.key.id, vote.id))

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        if not replica.is_leader or replica.view is None or replica.view.epoch >= self._newest_epoch:
            return
        committed = self.facts.committed.last_entry_below(new)
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
