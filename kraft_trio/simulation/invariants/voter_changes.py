"""How voter sets change."""

from __future__ import annotations

from collections.abc import Sequence

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.snapshot_files import content_of, snapshots_of, voters_in
from kraft_trio.simulation.facts.voter_sets import changed_members, text_of, text_of_keys
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter


class OneUncommittedVoterChange(Invariant):
    """Consecutive sets have overlapping majorities, but a set and the next but one need not.  If one log had two
    uncommitted VotersRecords, a replica with both and one with neither could each find a majority of its own (KIP-853
    "Voter changes": one at a time)."""

    number = 12
    title = "a log has at most one uncommitted VotersRecord"

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if not any(entry.voters is not None for entry in entries):
            return
        committed = self.facts.committed.end
        uncommitted = self.facts.voters.in_log_above(replica, committed)
        if len(uncommitted) > 1:
            offsets = ", ".join(str(logged.base_offset) for logged in uncommitted)
            fact = f"the log of {replica.key} has VotersRecords in the batches at offsets {offsets}"
            self.violated(fact, f"it is committed up to offset {committed} only", (replica.key.id,))


class OverlappingVoterSets(Invariant):
    """Two sets that differ by one replica key have no disjoint majorities.  With two keys they may: {1,2,3} and {1,2,4}
    have {1,3} and {2,4} (KIP-853 "Voter changes").  A key is id and directory id, so the same id on another disk is
    another member.  Other endpoints are no difference, nor is a directory id that becomes known by the upgrade to
    kraft.version 1."""

    number = 13
    title = "consecutive voter sets differ by at most one replica key"

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        for entry in entries:
            if entry.voters is None:
                continue
            before = self.facts.voters.before(replica, entry.base_offset)
            changed = changed_members(before, entry.voters)
            # An observer that was formatted without voters has an empty set before the first VotersRecord.
            if len(before) and len(changed) > 1:
                fact = f"the voters of {replica.key} were {text_of(before)}"
                other = f"the batch at offset {entry.base_offset} makes them {text_of(entry.voters)}"
                self.violated(fact, f"{other}, another one in {text_of_keys(changed)}", (replica.key.id,))


class NoEarlyVoterChange(Invariant):
    """A leader that has committed nothing in its epoch does not know which of the sets in its log is committed.  An
    earlier leader may have committed another change that this log lacks.  Both changes would apply to the same old set,
    with majorities that may be disjoint (the single-server bug of 2015).  A record of the leader's own epoch on a
    majority rules that out (KIP-853 "AddVoter", step 2).  Writing the same set again is no change, nor are other
    endpoints."""

    number = 14
    title = "a leader changes no voters before it knows its high watermark"

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if not by_leader:
            return
        for entry in entries:
            if entry.voters is None or self.facts.committed.of_epoch(entry.epoch) is not None:
                continue
            before = self.facts.voters.before(replica, entry.base_offset)
            if [voter.key for voter in before] != [voter.key for voter in entry.voters]:
                fact = f"{replica.key} has committed nothing in epoch {entry.epoch}"
                other = f"it changes the voters from {text_of(before)} to {text_of(entry.voters)}"
                self.violated(fact, other, (replica.key.id,))


class VotersInForce(Invariant):
    """All replicas must count by the same rule.  The set in force is that of the last VotersRecord in the log as it is
    now, else that of the snapshot before the log, else the configured one (KIP-853 "Voters").  It takes effect with the
    append, is taken back in the step of a truncation, and is read again with the log.  When nothing happens any more,
    each node publishes that set too.  A snapshot holds the set that is in force where it ends.  The target of a
    reassignment belongs to the set, so it is a function of the surviving log too (KIP-642)."""

    number = 15
    title = "the voter set in force is the last one in the surviving log"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._known: set[tuple[ReplicaKey, OffsetAndEpoch]] = set()

    def started(self, replica: Replica) -> None:
        self._check_snapshots(replica)
        self._check(replica, "has opened its log")

    def ended(self, replica: Replica) -> None:
        self._check_snapshots(replica)

    def trimmed(self, replica: Replica, start_offset: int) -> None:
        self._check_snapshots(replica)

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if any(entry.is_control for entry in entries):
            self._check(replica, f"appended up to offset {entries[-1].next_offset}")

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        self._check(replica, f"truncated to offset {offset}")

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        if replica.is_leader:
            self._check(replica, f"took {new} for committed")

    def finished(self) -> None:
        for replica in self.facts.replicas:
            if replica.beliefs is None or replica.view is None:
                continue
            self._check_snapshots(replica)
            self._check(replica, "was left in peace")
            newest = self.facts.voters.newest(replica)
            if replica.view.voters != newest:
                fact = f"the last voters in the log of {replica.key} are {text_of(newest)}"
                self.violated(fact, f"it publishes {text_of(replica.view.voters)}", (replica.key.id,))

    def _check_snapshots(self, replica: Replica) -> None:
        """Check each snapshot once.  SnapshotsCoverTheLog reports those with records that are not committed."""
        committed = self.facts.committed
        for snapshot_id in snapshots_of(replica):
            if (replica.key, snapshot_id) in self._known or snapshot_id.offset > committed.end:
                continue
            self._known.add((replica.key, snapshot_id))
            below = [entry for entry in committed.voter_sets if entry.next_offset <= snapshot_id.offset]
            given = voters_in(content_of(replica, snapshot_id))
            if not below or below[-1].voters is None or given is None:
                continue
            voters, target = below[-1].voters, below[-1].target
            if (given.voters, given.target) != (voters, target):
                fact = (
                    f"the last voters that are committed below offset {snapshot_id.offset} are {_told(voters, target)}"
                )
                other = f"snapshot {snapshot_id} of {replica.key} has {_told(given.voters, given.target)}"
                self.violated(fact, other, (replica.key.id,))

    def _check(self, replica: Replica, when: str) -> None:
        if replica.beliefs is None:
            return
        last, beliefs = self.facts.voters.last(replica), replica.beliefs
        is_right = (beliefs.voters, beliefs.target) == (last.voters, last.target)
        if not is_right or not last.is_at(beliefs.voters_offset):
            in_log, counted = _told(last.voters, last.target), _told(beliefs.voters, beliefs.target)
            fact = f"the last voters in the log of {replica.key} are {in_log}, at {last.base_offset}"
            other = f"it counts by {counted}, of offset {beliefs.voters_offset}, after it {when}"
            self.violated(fact, other, (replica.key.id,))


def _told(voters: VoterSet, target: Sequence[ReplicaKey]) -> str:
    return text_of(voters) + (f" on the way to {text_of_keys(target)}" if target else "")
