"""Votes and leaders."""

from __future__ import annotations

from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import Candidate, Leader, Prospective
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.voter_sets import (
    LoggedVoters,
    is_majority,
    is_member,
    is_same_replica,
    text_of,
    text_of_keys,
)
from kraft_trio.simulation.invariants.epochs import given_vote, named_leader
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest
from kraft_trio.wire.apis.vote import VOTE, VoteRequest, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode


class OneLeaderPerEpoch(Invariant):
    """A leader needs the votes of a majority of its set, each replica votes once in an epoch, and any two majorities of
    consecutive sets share a replica.  An epoch therefore has at most one leader (KIP-595 "Leader election").  All other
    nodes learn of it from that leader, or from a node that did, so all name the same leader, in memory and on disk."""

    number = 1
    title = "each epoch has at most one leader, and all replicas agree on it"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._leaders: dict[int, ReplicaKey] = {}
        self._named: dict[int, tuple[int, str, int]] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        if isinstance(new.role, Leader):
            known = self._leaders.setdefault(new.epoch, replica.key)
            if known != replica.key:
                fact = f"{known} was elected leader of epoch {new.epoch}"
                self.violated(fact, f"{replica.key} leads it too", (known.id, replica.key.id))
        self._names(replica, new.epoch, named_leader(new.role, replica.key.id), "names")
        stored = self.facts.stored.get(replica.key)
        if stored is not None:
            self._names(replica, stored.epoch, stored.leader_id, "has stored")

    def _names(self, replica: Replica, epoch: int, leader_id: int | None, how: str) -> None:
        if leader_id is None:
            return
        node_id = replica.key.id
        known_id, known_how, by = self._named.setdefault(epoch, (leader_id, how, node_id))
        if known_id != leader_id:
            fact = f"node {by} {known_how} {known_id} as the leader of epoch {epoch}"
            self.violated(fact, f"node {node_id} {how} {leader_id}", (known_id, leader_id, by, node_id))


class OneVotePerEpoch(Invariant):
    """Two leaders in one epoch would each need a majority, so some replica would have voted twice (KIP-595 "Vote").  A
    vote is for an (id, directory id).  It is durable before it is answered, and stays until the epoch ends, over
    changes of role and restarts.  A pre-vote promises nothing (KIP-996): a vote for another replica comes only from a
    real request of that replica in that epoch."""

    number = 3
    title = "a replica votes at most once per epoch, and stores the vote before it answers"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        self._voted(replica, new.epoch, given_vote(new.role, replica.key), "holds to")
        stored = self.facts.stored.get(replica.key)
        if stored is not None and stored.epoch == new.epoch and stored.voted_key is not None:
            self._voted(replica, new.epoch, stored.voted_key, "has stored")

    def _voted(self, replica: Replica, epoch: int, vote: ReplicaKey | None, how: str) -> None:
        key = replica.key
        known = self._votes.get((key, epoch))
        if known is None:
            if vote is not None:
                self._votes[key, epoch] = vote
                self._check_asked(replica, epoch, vote)
        elif vote is None or not any(self.facts.is_vote_for(a, b, key) for a, b in ((vote, known), (known, vote))):
            fact = f"{key} voted for {known} in epoch {epoch}"
            self.violated(fact, f"it {how} {'no vote' if vote is None else f'a vote for {vote}'} in it", (key.id,))

    def _check_asked(self, replica: Replica, epoch: int, vote: ReplicaKey) -> None:
        key = replica.key
        is_own = self.facts.is_vote_for(vote, key, key)
        if not is_own and not self.facts.requests_for(key, epoch, vote):
            fact = f"{key} voted for {vote} in epoch {epoch}"
            self.violated(fact, f"no vote request of {vote} in epoch {epoch} has reached it", (key.id, vote.id))

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        return api_key == VOTE.key and not is_request

    def message_sent(self, message: Message) -> None:
        if message.request is None:
            return
        voter, request, response = self.facts.replica_at(message.source), message.request.value, message.value
        if voter is None or not isinstance(request, VoteRequest) or not isinstance(response, VoteResponse):
            return
        is_granted = response.vote_granted and ErrorCode.none == response.error == response.partition_error
        if is_granted and not request.pre_vote:
            self._check_durable(voter, request.replica, request.replica_epoch)

    def _check_durable(self, voter: Replica, candidate: ReplicaKey, epoch: int) -> None:
        """If the voter is in a later epoch by now, the vote that it had stored in this one counts."""
        state = voter.durable_election_state()
        vote = self.facts.stored_votes.get((voter.key, epoch))
        if state is not None and state.epoch == epoch:
            vote = voter.key if state.leader_id == voter.key.id else state.voted_key
        if not self.facts.is_vote_for(vote, candidate, voter.key):
            fact = f"{voter.key} granted {candidate} its vote in epoch {epoch}"
            holds = "never held a vote" if vote is None else f"holds a vote for {vote}"
            self.violated(fact, f"its device {holds} in that epoch", (voter.key.id, candidate.id))


class MembersCampaign(Invariant):
    """A replica outside its own newest set would disturb a quorum that it has left or not joined, and could win by the
    votes of replicas that know even less (KIP-853 "Leader election").  So only members, by id and directory id, ask for
    pre-votes or votes.  Any replica may vote, because its own set may be older than the candidate's.

    A member of the previous set may campaign until it knows that the newest set is committed.  A leader that has
    appended its own removal may have the only log that can win, and then no other node could commit the removal
    (Ongaro's thesis, 4.2.2).  It does not count its own vote (invariant DeadIncarnations)."""

    number = 16
    title = "only members campaign: of their newest voter set, or of the last one known to be committed"

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if not isinstance(new.role, Prospective | Candidate | Leader) or (old is not None and old.stamp == new.stamp):
            return
        last = self.facts.voters.last(replica)
        if not is_member(last.voters, replica.key) and not self._was_member(replica, last):
            fact = f"the last voters in the log of {replica.key} are {text_of(last.voters)}"
            self.violated(fact, f"it becomes {type(new.role).__name__} in epoch {new.epoch}", (replica.key.id,))

    def _was_member(self, replica: Replica, last: LoggedVoters) -> bool:
        """Whether it is a member of the previous set, and does not know that the last one is committed."""
        is_known = replica.high_watermark is not None and replica.high_watermark >= last.next_offset
        return not is_known and any(
            is_member(voters, replica.key) for voters in self.facts.voters.before_newest(replica)
        )


class DeadIncarnations(Invariant):
    """A replica that lost its disk has lost its votes and its log, so it no longer keeps what it promised under its old
    directory id.  Counted by its id alone, it could vote twice (KIP-853 "Directory id").  A leader is therefore elected
    by a majority of the members of its own set, each by id and directory id, and each has durably voted for it in that
    epoch.  A replica makes its requests under the directory id of the disk that it runs on."""

    number = 22
    title = "a dead incarnation never counts for anything"

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        role = new.role
        if not isinstance(role, Leader) or (old is not None and old.role is role):
            return
        key, voters = replica.key, self.facts.voters.newest(replica)
        fact = f"{key} was elected leader of epoch {new.epoch} by {text_of_keys(role.granting_voters)}"
        concerned = (key.id, *(member.id for member in role.granting_voters))
        members = [voter.key for voter in voters if any(is_same_replica(voter.key, k) for k in role.granting_voters)]
        if not is_majority(len(members), voters):
            self.violated(fact, f"its voters are {text_of(voters)}", concerned)
        for voter in sorted(role.granting_voters):
            if not is_member(voters, voter):
                self.violated(fact, f"{voter} is not in its voters {text_of(voters)}", concerned)
            vote = self.facts.stored_vote(voter, new.epoch)
            if not self.facts.is_vote_for(vote, key, voter):
                held = "no vote" if vote is None else f"a vote for {vote}"
                self.violated(fact, f"the device of {voter} never held but {held} in that epoch", concerned)

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        return is_request and api_key in {FETCH.key, VOTE.key}

    def message_sent(self, message: Message) -> None:
        sender = self.facts.replica_at(message.source)
        if sender is None:
            return
        request = message.value
        said: list[ReplicaKey] = []
        if isinstance(request, FetchRequest) and request.replica_id >= 0:
            own_id, own_directory_id = sender.key.id, sender.key.directory_id
            said = [
                ReplicaKey(request.replica_id, partition.replica_directory_id)
                for partition in request.partitions
                if request.replica_id != own_id or partition.replica_directory_id != own_directory_id
            ]
        elif isinstance(request, VoteRequest):
            said = [request.replica]
        for key in said:
            if key != sender.key:
                fact = f"{sender.key} runs on {message.source}"
                self.violated(fact, f"it sends a {type(request).__name__} as {key}", (sender.key.id,))
