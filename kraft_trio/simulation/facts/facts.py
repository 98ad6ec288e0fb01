"""What the invariants share: facts of the whole run, gathered once from what the world saw, never from a node's word.

The Checker tells it of each event before it tells the invariants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.simulation.facts.committed_log import CommittedLog
from kraft_trio.simulation.facts.committed_records import CommittedRecords
from kraft_trio.simulation.facts.membership import is_same_replica
from kraft_trio.simulation.facts.voter_sets import VoterSets
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest
from kraft_trio.wire.apis.vote import VOTE, VoteRequest

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.protocol.roles import ElectionState
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Entry, Replica
    from kraft_trio.simulation.network.message import Message

NODE_HOST: Final = "node-"
"""What the name of a node's host begins with; its id follows."""


class Evidence:
    """Offsets are exclusive ends."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.committed = CommittedLog()
        self.records = CommittedRecords()
        """The application's values in the committed log."""
        self.voters = VoterSets()
        self.processes: dict[ReplicaKey, int] = {}
        """How many processes there have been of each replica."""
        self.stored: dict[ReplicaKey, ElectionState] = {}
        """quorum-state as each replica's device held it at its last transition."""
        self.stored_votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        """For whom a replica's device has ever held a vote, by epoch.  Leading an epoch is a vote for oneself."""
        self.claims: dict[tuple[ReplicaKey, int], int] = {}
        """The highest fetch offset that a replica has sent in an epoch: so far, it says, it holds the log durably."""
        self.vote_requests: dict[tuple[int, int], list[VoteRequest]] = {}
        """The requests for a real vote that have reached a node, by its id and the epoch."""
        self.newest_epoch = 0
        """The highest epoch that anybody has published."""
        self._node_ids: dict[str, int | None] = {}
        """By the name of a host; None for a client's."""
        self._replicas: dict[ReplicaKey, Replica] = {}
        self._incarnations: dict[int, list[ReplicaKey]] = {}

    # Asking

    def replica_at(self, host: str) -> Replica | None:
        """The replica whose process speaks from that host; None for a client's."""
        if host not in self._node_ids:
            node_id = host.removeprefix(NODE_HOST)
            self._node_ids[host] = int(node_id) if node_id.isdecimal() and node_id != host else None
        found = self._node_ids[host]
        machine = None if found is None else self._cluster.machines.get(found)
        return None if machine is None else machine.replica

    def incarnations(self, member: ReplicaKey) -> list[Replica]:
        """Who is, or was, that member of a voter set: one replica, or for a static voter every one of that id."""
        if member.directory_id != NO_DIRECTORY_ID:
            replica = self._replicas.get(member)
            return [] if replica is None else [replica]
        return [self._replicas[key] for key in self._incarnations.get(member.id, ())]

    def stored_vote(self, member: ReplicaKey, epoch: int) -> ReplicaKey | None:
        """For whom that member of a voter set has durably voted in that epoch."""
        votes = (self.stored_votes.get((replica.key, epoch)) for replica in self.incarnations(member))
        return next((vote for vote in votes if vote is not None), None)

    def highest_claim(self, member: ReplicaKey, epoch: int) -> int | None:
        """Of all fetch offsets that this member of a voter set sent in that epoch."""
        claims = (self.claims.get((replica.key, epoch)) for replica in self.incarnations(member))
        return max((claim for claim in claims if claim is not None), default=None)

    def requests_for(self, voter: ReplicaKey, epoch: int, vote: ReplicaKey) -> list[VoteRequest]:
        """The requests of that candidate for a real vote in that epoch that have reached this voter."""
        requests = self.vote_requests.get((voter.id, epoch), ())
        return [request for request in requests if self.is_vote_for(vote, request.replica, voter)]

    def is_vote_for(self, stored: ReplicaKey | None, candidate: ReplicaKey, by: ReplicaKey) -> bool:
        """Whether a vote that `by` has stored is one for that replica.

        kraft.version 0 stores an id alone, and so does who has not learned of a later one: all but the initial voters
        learn of it from the log.
        """
        if stored is None:
            return False
        return stored == candidate or (self._may_know_version_0_alone(by) and is_same_replica(stored, candidate))

    def _may_know_version_0_alone(self, key: ReplicaKey) -> bool:
        cluster = self._cluster
        return cluster.setup.kraft_version == 0 or all(voter.key != key for voter in cluster.initial_voters)

    # Being told

    def started(self, replica: Replica) -> None:
        key = replica.key
        self.processes[key] = self.processes.get(key, 0) + 1
        if key not in self._replicas:
            self._incarnations.setdefault(key.id, []).append(key)
        self._replicas[key] = replica
        self.voters.started(replica)
        self._read_stored(replica)

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is None or old.role is not new.role:
            self._read_stored(replica)

    def role_was_checked(self, new: QuorumView) -> None:
        """Called after the invariants: until then an epoch that nobody had published is a new one."""
        self.newest_epoch = max(self.newest_epoch, new.epoch)

    def appended(self, replica: Replica, entries: Sequence[Entry]) -> None:
        self.voters.appended(replica, entries)

    def truncated(self, replica: Replica, offset: int) -> None:
        self.voters.truncated(replica, offset)

    def replaced(self, replica: Replica) -> None:
        """Nothing of the log's own sets is in force any more (scenario S11)."""
        self.voters.started(replica)

    def high_watermark_advanced(self, replica: Replica, new: int) -> None:
        if replica.view is not None and replica.is_leader:
            self.committed.advance(replica, replica.view.epoch, new)
        self.records.follow(replica, min(new, self.committed.end))

    def message_sent(self, message: Message) -> None:
        if message.api_key != FETCH.key or not message.is_request:
            return
        replica = self.replica_at(message.source)
        request = message.value
        if replica is None or not isinstance(request, FetchRequest) or request.replica_id < 0:
            return
        for partition in request.partitions:
            of_epoch = (replica.key, partition.current_leader_epoch)
            self.claims[of_epoch] = max(self.claims.get(of_epoch, 0), partition.fetch_offset)

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
