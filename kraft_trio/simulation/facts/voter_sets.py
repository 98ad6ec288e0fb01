"""The voter sets in each replica's log, folded from its entries alone (KIP-853: in force from the append on)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.facts.snapshot_files import is_rotten
from kraft_trio.storage.checkpoint import read_checkpoint
from kraft_trio.storage.control_records import VotersRecord
from kraft_trio.storage.disk import join
from kraft_trio.storage.partition_files import checkpoint_ids, checkpoint_name

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Entry, Replica


class LoggedVoters(NamedTuple):
    """A VotersRecord in a log, or what holds before the first one."""

    base_offset: int
    """Of its batch; of a snapshot's set, the last offset that it covers."""
    next_offset: int
    voters: VoterSet
    is_configured: bool = False
    """Whether the configuration says so, and no record."""

    def is_at(self, offset: int | None) -> bool:
        """Whether the record could be at that offset; None: whether there is no record."""
        return self.is_configured if offset is None else self.base_offset <= offset < self.next_offset


class VoterSets:
    """For each replica the stack of its sets: pushed by an append, popped by a truncation."""

    def __init__(self) -> None:
        self._stacks: dict[ReplicaKey, list[LoggedVoters]] = {}
        self.truncated_sets = 0
        """How many VotersRecords have been truncated, of all logs together."""

    def started(self, replica: Replica) -> None:
        """Read them anew: from a snapshot, else the configuration; then from the log."""
        first = _before_the_log(replica)
        self._stacks[replica.key] = [first]
        self.appended(replica, replica.entries_from(first.next_offset))

    def appended(self, replica: Replica, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.voters is not None:
                logged = LoggedVoters(entry.base_offset, entry.next_offset, entry.voters)
                self._stacks[replica.key].append(logged)

    def truncated(self, replica: Replica, offset: int) -> None:
        stack = self._stacks[replica.key]
        while len(stack) > 1 and stack[-1].base_offset >= offset:
            stack.pop()
            self.truncated_sets += 1

    def last(self, replica: Replica) -> LoggedVoters:
        """The last VotersRecord of its log, committed or not."""
        return self._stacks[replica.key][-1]

    def newest(self, replica: Replica) -> VoterSet:
        """The set in force: that of the last VotersRecord."""
        return self.last(replica).voters

    def before(self, replica: Replica, base_offset: int) -> VoterSet:
        """The set that was in force before the batch at that offset."""
        return next(logged.voters for logged in reversed(self._stacks[replica.key]) if logged.base_offset < base_offset)

    def before_newest(self, replica: Replica) -> list[VoterSet]:
        """The set that the last VotersRecord replaced; none where there is no other."""
        return [logged.voters for logged in self._stacks[replica.key][-2:-1]]

    def in_log_above(self, replica: Replica, offset: int) -> list[LoggedVoters]:
        """The VotersRecords of its log that end above that offset, oldest first."""
        above = []
        for logged in reversed(self._stacks[replica.key]):
            if logged.next_offset <= offset:
                break
            above.append(logged)
        return above[::-1]


def _before_the_log(replica: Replica) -> LoggedVoters:
    """What holds before the log's first entry: below any offset, so that it stays whatever is truncated.

    A log that begins above 0 has it from its newest snapshot, and any other from the bootstrap one.
    """
    disk, directory = replica.machine.disk, replica.machine.partition_path
    ids = checkpoint_ids(disk.peek_names(directory))
    if replica.node is None or replica.node.log.log_start_offset == 0:
        ids = [id for id in ids if id.offset == 0]
    ids = [id for id in ids if not is_rotten(replica, id)]
    content = disk.peek(join(directory, checkpoint_name(ids[-1]))) if ids else None
    # A snapshot that is not whole is for SnapshotsCoverTheLog to report.
    with contextlib.suppress(ProtocolError):
        for record in read_checkpoint(content or b""):
            if isinstance(record, VotersRecord):
                return LoggedVoters(ids[-1].offset - 1, ids[-1].offset, record.voters)
    return LoggedVoters(-1, 0, replica.machine.config.static_voter_set(), is_configured=True)
