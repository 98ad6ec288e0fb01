"""Epochs and roles within one replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.storage.disk.disk import join
from kraft_trio.storage.disk.partition_files import QUORUM_STATE

FIRST: Final[tuple[type[Role], ...]] = (Unattached, Candidate, Follower, Resigned)
"""The roles in which a process may begin; neither a Prospective nor a Leader can."""

IN_THE_SAME_EPOCH: Final[Mapping[type[Role], tuple[type[Role], ...]]] = {
    Unattached: (Unattached, Prospective, Follower),
    Prospective: (Prospective, Unattached, Follower),
    Candidate: (Candidate, Prospective, Leader, Follower),
    Follower: (Follower, Prospective),
    Leader: (Leader, Resigned),
    Resigned: (Resigned,),
}
"""The roles that may follow a role in the same epoch."""


def named_leader(role: Role, own_id: int) -> int | None:
    """The node that a node in this role names as the leader of its epoch."""
    match role:
        case Leader() | Resigned():
            return own_id
        case Unattached() | Prospective() | Follower():
            return role.leader_id
        case _:
            return None


def given_vote(role: Role, own_key: ReplicaKey) -> ReplicaKey | None:
    """The replica that a node in this role has voted for in its epoch."""
    match role:
        case Candidate() | Leader() | Resigned():
            return own_key
        case Unattached() | Prospective() | Follower():
            return role.voted


class EpochsNeverFall(Invariant):
    """A node that went back to a lower epoch could vote in it again, and follow a leader that has been replaced
    (KIP-595 "Quorum state").  To keep its epoch over a restart it must store what it acts by first.  Once it publishes
    a role, quorum-state must therefore hold the epoch, leader and vote of that role."""

    number = 2
    title = "a replica's epoch never falls, and it stores the epoch, leader and vote before it acts on them"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._published: dict[ReplicaKey, int] = {}
        self._stored: dict[ReplicaKey, int] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        key = replica.key
        highest = self._published.get(key, 0)
        if new.epoch < highest:
            self.violated(f"{key} was in epoch {highest}", f"now it is in epoch {new.epoch}", (key.id,))
        self._published[key] = max(highest, new.epoch)
        self._check_stored(replica, new.role)

    def _check_stored(self, replica: Replica, role: Role) -> None:
        key = replica.key
        fact = f"{key} acts as {role}"
        if replica.durable_election_state() is None:
            path = join(replica.device.partition_path, QUORUM_STATE)
            if replica.device.content.durable_bytes(path) is None:
                self.violated(fact, "its device holds no quorum-state", (key.id,))
            return  # The medium has damaged the file; the node has broken no rule.
        stored = self.facts.stored[key]
        highest = self._stored.get(key, 0)
        if stored.epoch < highest:
            self.violated(f"{key} had stored epoch {highest}", f"now it has stored epoch {stored.epoch}", (key.id,))
        self._stored[key] = max(highest, stored.epoch)
        vote = given_vote(role, key)
        is_vote_stored = (
            stored.voted_key is None if vote is None else self.facts.is_vote_for(stored.voted_key, vote, key)
        )
        if isinstance(role, Leader | Resigned):
            # Its vote for itself is implied by its leadership.
            is_vote_stored = is_vote_stored or stored.voted_key is None
        if (stored.epoch, stored.leader_id) != (role.epoch, named_leader(role, key.id)) or not is_vote_stored:
            self.violated(fact, f"its device holds {stored}", (key.id,))


class RestartedLeaderResigns(Invariant):
    """A leader that crashes may lose records that it had not synced but a follower already has.  If it kept leading
    its epoch, it would give the same offsets to other records, and (epoch, offset) would name two of them.  So it comes
    back as Resigned, as in Kafka, and the leader of an epoch appends at each offset only once."""

    number = 4
    title = "a restarted leader never leads its old epoch again, so (epoch, offset) names one record"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._led_by: dict[int, tuple[ReplicaKey, int]] = {}
        """By epoch, the replica that led it, and the number of its process."""
        self._appended_ends: dict[int, int] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        key, process = replica.key, self.facts.processes.get(replica.key, 0)
        if isinstance(new.role, Leader):
            known = self._led_by.setdefault(new.epoch, (key, process))
            if known[0] == key and known[1] != process:
                fact = f"process {known[1]} of {key} led epoch {new.epoch}"
                self.violated(fact, f"its process {process} leads it again", (key.id,))
        elif old is None and self._led_by.get(new.epoch, (None, 0))[0] == key and not isinstance(new.role, Resigned):
            fact = f"{key} led epoch {new.epoch} before it was restarted"
            self.violated(fact, f"it comes back as {type(new.role).__name__}", (key.id,))

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if not by_leader:
            return
        for entry in entries:
            end = self._appended_ends.get(entry.epoch, 0)
            if entry.base_offset < end:
                fact = f"the leader of epoch {entry.epoch} had appended up to offset {end}"
                other = f"{replica.key} appends at offset {entry.base_offset} in that epoch"
                self.violated(fact, other, (replica.key.id,))
            self._appended_ends[entry.epoch] = max(end, entry.next_offset)


class RoleTransitions(Invariant):
    """All other arguments rely on the roles.  A leader leads until it resigns or hears of a higher epoch.  A follower
    has one leader in an epoch.  Only a candidate that wins a vote becomes leader, and only a winner of a pre-vote
    becomes candidate (KIP-595 "Quorum state", KIP-996).  The table here is a second copy of that rule, for pairs of
    published roles.  In a higher epoch any role may become Unattached or Follower, and a Prospective may become
    Candidate in the next epoch."""

    number = 17
    title = "roles change only along the transition table"

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        if not _is_allowed(None if old is None else old.role, new.role):
            before = "its process has just begun" if old is None else f"{replica.key} was {old.role}"
            self.violated(before, f"{replica.key} is {new.role}", (replica.key.id,))
        elif old is not None and old.epoch == new.epoch:
            known, names = (named_leader(role, replica.key.id) for role in (old.role, new.role))
            if known is not None and names != known:
                fact = f"{replica.key} knew {known} as the leader of epoch {new.epoch}"
                self.violated(fact, f"now it is {new.role}", (replica.key.id, known))


def _is_allowed(old: Role | None, new: Role) -> bool:
    if old is None:
        return isinstance(new, FIRST)
    if new.epoch == old.epoch:
        return isinstance(new, IN_THE_SAME_EPOCH[type(old)])
    if isinstance(new, Candidate):
        return isinstance(old, Prospective) and new.epoch == old.epoch + 1
    return new.epoch > old.epoch and isinstance(new, Unattached | Follower)
