"""Membership of voter sets, and the sets in each replica's log (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.snapshot_files import is_rotten, path_of, voters_in
from kraft_trio.storage.disk.partition_files import checkpoint_ids


def is_same_replica(member: ReplicaKey, key: ReplicaKey) -> bool:
    """Whether `key` is this member of a set: by id and directory id, or by id alone if the set is static."""
    return member.id == key.id and member.directory_id in (NO_DIRECTORY_ID, key.directory_id)


def is_member(voters: VoterSet, key: ReplicaKey) -> bool:
    return any(is_same_replica(voter.key, key) for voter in voters)


def is_majority(count: int, voters: VoterSet) -> bool:
    """Whether `count` voters are more than half of the set."""
    return 2 * count > len(voters)


def changed_members(old: VoterSet, new: VoterSet) -> list[ReplicaKey]:
    """The keys that only one of the two sets has, ascending.

    A member whose directory id becomes known has not changed: the upgrade to kraft.version 1 fills it in.
    """
    gone = {voter.key for voter in old} - {voter.key for voter in new}
    come = {voter.key for voter in new} - {voter.key for voter in old}
    filled_in = {key.id for key in gone if key.directory_id == NO_DIRECTORY_ID} & {key.id for key in come}
    return sorted(key for key in gone | come if key.id not in filled_in)


def text_of_keys(keys: Iterable[ReplicaKey]) -> str:
    """The keys for a human, ascending: `{1, 2-directory}`."""
    return "{" + ", ".join(str(key) for key in sorted(keys)) + "}"


def text_of(voters: VoterSet) -> str:
    return text_of_keys(voter.key for voter in voters)


class LoggedVoters(NamedTuple):
    """A VotersRecord in a log, or the set that is in force before the first one."""

    base_offset: int
    """Of its batch.  For the set of a snapshot, the last offset that the snapshot replaces."""
    next_offset: int
    voters: VoterSet
    is_configured: bool = False
    """Whether the set comes from the configuration and not from a record."""
    target: tuple[ReplicaKey, ...] = ()
    """The target of a reassignment that the record names."""

    def is_at(self, offset: int | None) -> bool:
        """Whether the record could be at that offset; None means a configured set."""
        return self.is_configured if offset is None else self.base_offset <= offset < self.next_offset


class VoterSets:
    """For each replica a stack of sets: an append pushes, a truncation pops."""

    def __init__(self) -> None:
        self._stacks: dict[ReplicaKey, list[LoggedVoters]] = {}
        self.truncated_sets = 0
        """How many VotersRecords have been truncated, in all logs together."""

    def started(self, replica: Replica) -> None:
        """Read the sets of a replica again: first from a snapshot or the configuration, then from the log."""
        first = _before_the_log(replica)
        self._stacks[replica.key] = [first]
        self.appended(replica, replica.entries_from(first.next_offset))

    def appended(self, replica: Replica, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.voters is not None:
                logged = LoggedVoters(entry.base_offset, entry.next_offset, entry.voters, target=entry.target)
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
        return self.logged_before(replica, base_offset).voters

    def logged_before(self, replica: Replica, base_offset: int) -> LoggedVoters:
        """The last VotersRecord before the batch at that offset."""
        return next(logged for logged in reversed(self._stacks[replica.key]) if logged.base_offset < base_offset)

    def before_newest(self, replica: Replica) -> list[VoterSet]:
        """The set that the last VotersRecord replaced, or an empty list."""
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
    """The set in force before the first entry of the log.  Its offsets are so low that no truncation removes it.

    If the log begins above 0, the set comes from the newest snapshot, otherwise from the bootstrap checkpoint.  A
    snapshot that is not whole breaks invariant SnapshotsCoverTheLog, not a rule about voters.
    """
    device = replica.device
    ids = checkpoint_ids(device.content.peek_names(device.partition_path))
    if replica.beliefs is None or replica.beliefs.log_start_offset == 0:
        ids = [id for id in ids if id.offset == 0]
    ids = [id for id in ids if not is_rotten(replica, id)]
    record = voters_in(device.content.peek(path_of(replica, ids[-1]))) if ids else None
    if record is None:
        return LoggedVoters(-1, 0, device.static_voters(), is_configured=True)
    return LoggedVoters(ids[-1].offset - 1, ids[-1].offset, record.voters, target=record.target)
