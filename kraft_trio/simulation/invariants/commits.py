"""What counts as committed, and when."""

from __future__ import annotations

from collections.abc import Sequence

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.voter_sets import is_majority, text_of, text_of_keys
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest, FetchResponse
from kraft_trio.wire.error_codes import ErrorCode


class HighWatermarkNeverFalls(Invariant):
    """What is committed stays committed, because clients know of it and state machines have applied it.  So a
    process never lowers its high watermark.  A new leader holds everything that earlier leaders committed, and knows no
    high watermark until a record of its own epoch has committed.  So its first high watermark covers all of theirs
    (KIP-595 "High watermark").  No replica drops a committed record: it truncates only what conflicts with a leader's
    log, which holds all that is committed.

    Both rules are about one process.  A crash may cost a leader its high watermark and records that it had not
    synced, although a majority of the others had."""

    number = 9
    title = "the high watermark never falls, and no record below it is truncated"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._known: dict[ReplicaKey, int] = {}

    def started(self, replica: Replica) -> None:
        self._known.pop(replica.key, None)

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        key = replica.key
        before = max(self._known.get(key, 0), old or 0)
        if new < before:
            self.violated(f"the high watermark of {key} was {before}", f"now it is {new}", (key.id,))
        self._known[key] = max(before, new)
        if replica.is_leader and replica.view is not None:
            self._check_successive(key, replica.view.epoch, new)

    def _check_successive(self, key: ReplicaKey, epoch: int, new: int) -> None:
        committed = self.facts.committed
        commits = committed.of_epoch(epoch)
        lower, higher = committed.epochs_below(epoch), committed.epochs_above(epoch)
        earlier = committed.of_epoch(lower[-1]) if lower else None
        later = committed.of_epoch(higher[0]) if higher else None
        if commits is not None and earlier is not None and commits.first < earlier.last:
            fact = f"the high watermark in epoch {lower[-1]} was {earlier.last}"
            self.violated(fact, f"{key} begins with {commits.first} in epoch {epoch}", (key.id,))
        if later is not None and new > later.first:
            fact = f"the high watermark in epoch {higher[0]} began with {later.first}"
            self.violated(fact, f"{key} takes it to {new} in epoch {epoch}", (key.id,))

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        key = replica.key
        high_watermark = max(self._known.get(key, 0), replica.high_watermark or 0)
        if offset < high_watermark:
            self.violated(f"the high watermark of {key} is {high_watermark}", f"it truncates to {offset}", (key.id,))
        # If a later one is committed, so is the first one, which is in its prefix.
        if removed and self.facts.committed.includes(removed[0]):
            first = removed[0]
            fact = f"the batch of epoch {first.epoch} at offset {first.base_offset} is committed"
            self.violated(fact, f"{key} truncates it, to offset {offset}", (key.id,))


class HighWatermarkOfTheEpoch(Invariant):
    """A majority that holds a record of an earlier epoch does not commit it: a replica without the record may still be
    elected and overwrite it (Raft, figure 8).  A majority that holds a record of the leader's own epoch commits it,
    with everything before it.  Until then the leader knows no high watermark, whatever it knew as a follower, and
    nobody learns one from it (KIP-595 "High watermark").  What a snapshot replaces is committed in every epoch
    (KIP-630)."""

    number = 10
    title = "a leader has no high watermark until a record of its own epoch is on a majority"

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        if replica.view is None:
            return
        key, epoch = replica.key, replica.view.epoch
        if replica.is_leader:
            entry = replica.entry_at(new - 1)
            if entry is None or entry.epoch != epoch:
                fact = f"{key} leads epoch {epoch} and takes its log up to offset {new} for committed"
                last = "nothing is" if entry is None else f"a record of epoch {entry.epoch} is"
                self.violated(fact, f"{last} the last before it", (key.id,))
        elif self.facts.committed.of_epoch(epoch) is None and not _is_end_of_snapshot(replica, new):
            fact = f"{key} learned in epoch {epoch} that the high watermark is {new}"
            self.violated(fact, "no record of that epoch is committed", (key.id,))

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        return api_key == FETCH.key and not is_request

    def message_sent(self, message: Message) -> None:
        replica = self.facts.replica_at(message.source)
        if replica is None or replica.view is None:
            return
        if replica.is_leader and self.facts.committed.of_epoch(replica.view.epoch) is not None:
            return  # The leader may tell what it knows; the response need not be decoded.
        response = message.value
        for partition in response.partitions if isinstance(response, FetchResponse) else ():
            epoch = partition.leader_epoch
            is_told = partition.error == ErrorCode.none and partition.high_watermark >= 0
            if is_told and self.facts.committed.of_epoch(epoch) is None:
                fact = f"{replica.key} answers a Fetch in epoch {epoch} with high watermark {partition.high_watermark}"
                self.violated(fact, "no record of that epoch is committed", (replica.key.id,))


def _is_end_of_snapshot(replica: Replica, offset: int) -> bool:
    """Whether a snapshot has replaced its log up to that offset."""
    last = replica.entry_ending_at(offset)
    return last is not None and not last.path


class CommitByMajority(Invariant):
    """A record is committed if, after any crash, every majority that could elect a leader has a replica that still
    holds it.  So only what is on devices counts, and only on those of members of the newest set in the leader's log.  A
    VotersRecord counts by the set that it brings.  Neither another incarnation of a member counts, nor a leader outside
    the set (KIP-853 "High watermark").  A follower takes for committed only what a leader does.

    A disk that is replaced takes its records with it, but not the promise.  Its incarnation can never vote again, so
    what it claimed to hold durably still counts."""

    number = 11
    title = "a record commits only once a majority of its own voter set holds it durably"

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        view = replica.view
        if view is None:
            return
        key = replica.key
        if not replica.is_leader:
            committed = self.facts.committed.end
            if new > committed:
                fact = f"leaders have committed up to offset {committed}"
                self.violated(fact, f"{key}, no leader, takes {new} for committed", (key.id,))
            return
        voters = self.facts.voters.newest(replica)
        entry = replica.entry_at(new - 1)
        holders: list[ReplicaKey] = []
        for voter in voters:
            if entry is not None and self._holds(voter.key, entry, view.epoch):
                holders.append(voter.key)
                if is_majority(len(holders), voters):
                    return  # Further holders cannot make it less than a majority.
        fact = f"{key} leads epoch {view.epoch} and takes its log up to offset {new} for committed"
        other = f"of the voters {text_of(voters)} only {text_of_keys(holders)} hold that durably"
        self.violated(fact, other, (key.id, *voters.ids))

    def _holds(self, member: ReplicaKey, entry: Entry, epoch: int) -> bool:
        for replica in self.facts.incarnations(member):
            held = replica.entry_ending_at(entry.next_offset)
            if held is not None and held.chain == entry.chain and replica.has_durably(held):
                return True
            is_gone = self.facts.is_gone(replica)
            if is_gone and self.facts.claims.get((replica.key, epoch), 0) >= entry.next_offset:
                return True
        return False


class ProgressIsDurable(Invariant):
    """The offset of a Fetch is an acknowledgement: the leader counts everything below it as durable on that replica
    (KIP-595 "Fetch").  So a replica may send no offset above what its device would hold after a crash, and the leader
    may believe no more than the highest offset that the replica has sent in this epoch."""

    number = 20
    title = "a leader never counts more of a follower's log than the follower has synced"

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        return api_key == FETCH.key and is_request

    def message_sent(self, message: Message) -> None:
        replica = self.facts.replica_at(message.source)
        request = message.value
        if replica is None or not isinstance(request, FetchRequest) or request.replica_id < 0:
            return
        held = max(replica.durable_end(), 0 if replica.beliefs is None else replica.beliefs.log_start_offset)
        for partition in request.partitions:
            if partition.fetch_offset > held:
                fact = f"{replica.key} fetches from offset {partition.fetch_offset}"
                self.violated(fact, f"its device holds its log up to offset {held}", (replica.key.id,))

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        self._check_progress(replica)

    def synced(self, replica: Replica, end_offset: int) -> None:
        self._check_progress(replica)

    def _check_progress(self, leader: Replica) -> None:
        if leader.beliefs is None or leader.view is None or not leader.is_leader:
            return
        epoch = leader.view.epoch
        for voter in self.facts.voters.newest(leader):
            believed = leader.beliefs.synced_end_of(voter)
            if believed is None or voter.id == leader.key.id:
                continue
            claim = self.facts.highest_claim(voter.key, epoch)
            if claim is None or believed > claim:
                fact = f"{leader.key} leads epoch {epoch} and believes that {voter.key} has synced {believed}"
                sent = "has sent no Fetch in that epoch" if claim is None else f"has not claimed more than {claim}"
                self.violated(fact, f"{voter.key} {sent}", (leader.key.id, voter.id))
