"""`RunFacts`: what is true of a whole run, gathered from what the world saw and never from a node's word."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.facts.committed import CommittedLog, CommittedRecords
from kraft_trio.simulation.facts.device import Device
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.history import History
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.voter_sets import VoterSets, is_same_replica
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.violation import Violation
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest
from kraft_trio.wire.apis.vote import VOTE, VoteRequest

NODE_HOST: Final = "node-"
"""The name of a node's host is this and the node's id."""


class RunFacts:
    """The Checker tells it of each event before it tells the invariants.  Offsets are exclusive ends."""

    def __init__(
        self,
        cluster_id: str,
        kraft_version: int,
        initial_voters: VoterSet,
        history: History,
        witnesses: frozenset[int] = frozenset(),
    ) -> None:
        self.witnesses = witnesses
        """The ids of the nodes that lead only if nobody else can."""
        self.cluster_id = cluster_id
        self.kraft_version = kraft_version
        """With which the nodes were formatted."""
        self.initial_voters = initial_voters
        self.history = history
        """What clients asked for, and what they were told."""
        self.replicas: list[Replica] = []
        """Every incarnation so far, in the order in which they were formatted."""
        self.present: dict[int, Replica] = {}
        """By node id, the incarnation that the machine's disk is formatted as."""
        self.committed = CommittedLog()
        self.records = CommittedRecords()
        """The application's values in the committed log."""
        self.voters = VoterSets()
        self.processes: dict[ReplicaKey, int] = {}
        """How many processes each replica has had."""
        self.stored: dict[ReplicaKey, ElectionState] = {}
        """quorum-state as each replica's device held it at its last transition."""
        self.stored_votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        """By replica and epoch, the vote that its device has held.  Leading an epoch is a vote for oneself."""
        self.claims: dict[tuple[ReplicaKey, int], int] = {}
        """By replica and epoch, the highest offset that it has fetched from: it claims to hold that much durably."""
        self.vote_requests: dict[tuple[int, int], list[VoteRequest]] = {}
        """By node id and epoch, the requests for a real vote that have reached the node."""
        self.old_copies: set[ReplicaKey] = set()
        """The replicas whose machines were given an old copy of their disk: they may lack what they acknowledged."""
        self.may_lose = False
        """Whether a voter has broken its promises so that committed records may be lost, whatever the nodes do."""
        self.losses: list[Violation] = []
        """The rules that do not hold any more because of that."""
        self.newest_epoch = 0
        """The highest epoch that any replica has published."""
        self._node_ids: dict[str, int | None] = {}
        """By the name of a host; None for a client's."""
        self._started: dict[ReplicaKey, Replica] = {}
        self._incarnations: dict[int, list[ReplicaKey]] = {}

    # Asking

    def replica_at(self, host: str) -> Replica | None:
        """The replica on that host; None for a client's host."""
        if host not in self._node_ids:
            node_id = host.removeprefix(NODE_HOST)
            self._node_ids[host] = int(node_id) if node_id.isdecimal() and node_id != host else None
        found = self._node_ids[host]
        return None if found is None else self.present.get(found)

    def replica_of(self, key: ReplicaKey) -> Replica:
        """The incarnation of that key.  Raises KeyError."""
        for replica in self.replicas:
            if replica.key == key:
                return replica
        raise KeyError(key)

    def is_gone(self, replica: Replica) -> bool:
        """Whether another incarnation has taken its place on its machine."""
        return self.present.get(replica.key.id) is not replica

    def incarnations(self, member: ReplicaKey) -> list[Replica]:
        """The replicas that are, or were, this member of a voter set: one, or all of that id if the set is static."""
        if member.directory_id != NO_DIRECTORY_ID:
            replica = self._started.get(member)
            return [] if replica is None else [replica]
        return [self._started[key] for key in self._incarnations.get(member.id, ())]

    def stored_vote(self, member: ReplicaKey, epoch: int) -> ReplicaKey | None:
        """The candidate for which this member of a voter set has durably voted in that epoch."""
        votes = (self.stored_votes.get((replica.key, epoch)) for replica in self.incarnations(member))
        return next((vote for vote in votes if vote is not None), None)

    def highest_claim(self, member: ReplicaKey, epoch: int) -> int | None:
        """The highest offset that this member of a voter set has fetched from in that epoch."""
        if member in self._started:
            # One incarnation alone is this member, and has its key.
            return self.claims.get((member, epoch))
        claims = (self.claims.get((replica.key, epoch)) for replica in self.incarnations(member))
        return max((claim for claim in claims if claim is not None), default=None)

    def requests_for(self, voter: ReplicaKey, epoch: int, vote: ReplicaKey) -> list[VoteRequest]:
        """The candidate's requests for a real vote in that epoch that have reached this voter."""
        requests = self.vote_requests.get((voter.id, epoch), ())
        return [request for request in requests if self.is_vote_for(vote, request.replica, voter)]

    def is_vote_for(self, stored: ReplicaKey | None, candidate: ReplicaKey, by: ReplicaKey) -> bool:
        """Whether a vote that `by` has stored is one for that candidate.

        A node that knows only kraft.version 0 stores an id without a directory id.  All but the initial voters learn
        from the log that the version is higher.
        """
        if stored is None:
            return False
        return stored == candidate or (self._may_know_version_0_alone(by) and is_same_replica(stored, candidate))

    def _may_know_version_0_alone(self, key: ReplicaKey) -> bool:
        return self.kraft_version == 0 or all(voter.key != key for voter in self.initial_voters)

    # Being told

    def formatted(self, key: ReplicaKey, device: Device) -> Replica:
        """The disk in a machine has been formatted as a new incarnation."""
        replica = Replica(key, device, self.committed, self.records)
        self.replicas.append(replica)
        self.present[key.id] = replica
        return replica

    def started(self, replica: Replica) -> None:
        key = replica.key
        self.processes[key] = self.processes.get(key, 0) + 1
        if key not in self._started:
            self._incarnations.setdefault(key.id, []).append(key)
        self._started[key] = replica
        self.voters.started(replica)
        self._read_stored(replica)

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is None or old.role is not new.role:
            self._read_stored(replica)

    def role_was_checked(self, new: QuorumView) -> None:
        """Called after the invariants, which still compare a new epoch with the newest one before it."""
        self.newest_epoch = max(self.newest_epoch, new.epoch)

    def appended(self, replica: Replica, entries: Sequence[Entry]) -> None:
        self.voters.appended(replica, entries)

    def truncated(self, replica: Replica, offset: int) -> None:
        self.voters.truncated(replica, offset)

    def replaced(self, replica: Replica) -> None:
        """A snapshot has replaced the log: no set of the old log is in force any more."""
        self.voters.started(replica)

    def high_watermark_advanced(self, replica: Replica, new: int) -> None:
        if replica.view is not None and replica.is_leader:
            self.committed.advance(replica.entries_from(self.committed.end), replica.view.epoch, new)
        end = min(new, self.committed.end)
        self.records.follow(replica.entries_from(self.records.end), end, replica.device.content.peek)
        if self.records.end < end:
            self._read_from_others(end)

    def _read_from_others(self, end: int) -> None:
        """Take in what is committed below `end`, although the medium has damaged it where that became known."""
        for replica in self.present.values():
            same = takewhile(self.committed.includes, replica.entries_from(self.records.end))
            self.records.follow(same, end, replica.device.content.peek)

    def message_sent(self, message: Message) -> None:
        if message.api_key != FETCH.key or not message.is_request:
            return
        replica = self.replica_at(message.source)
        request = message.value
        if replica is None or not isinstance(request, FetchRequest) or request.replica_id < 0:
            return
        for partition in request.partitions:
            of_epoch = (replica.key, partition.current_leader_epoch)
            if partition.fetch_offset >= self.claims.get(of_epoch, 0):
                self.claims[of_epoch] = partition.fetch_offset

    def message_delivered(self, message: Message) -> None:
        if message.api_key != VOTE.key or not message.is_request:
            return
        voter, request = self.replica_at(message.target), message.value
        if voter is not None and isinstance(request, VoteRequest) and not request.pre_vote:
            self.vote_requests.setdefault((voter.key.id, request.replica_epoch), []).append(request)

    def _read_stored(self, replica: Replica) -> None:
        state = replica.durable_election_state()
        if state is None:
            return
        self.stored[replica.key] = state
        vote = replica.key if state.leader_id == replica.key.id else state.voted_key
        if vote is not None:
            self.stored_votes[replica.key, state.epoch] = vote
