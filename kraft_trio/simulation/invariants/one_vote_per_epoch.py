from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants.epochs_never_fall import given_vote
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.wire.apis.vote import VOTE, VoteRequest, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.simulation.network.message import Message


class OneVotePerEpoch(Invariant):
    """Two leaders in one epoch would each need a majority, so somebody would have voted twice (KIP-595 "Vote").  A vote
    is for an (id, directory id), is durable before it is answered and stays until the epoch ends, whatever the role and
    over restarts.  A pre-vote promises nothing (KIP-996): a vote for another comes from a real request of that replica
    in that very epoch, and from nothing else."""

    number = 3
    title = "a replica votes at most once per epoch, and stores the vote before it answers"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        self._voted(replica, new.epoch, given_vote(new.role, replica.key), "holds to")
        stored = self.evidence.stored.get(replica.key)
        if stored is not None and stored.epoch == new.epoch and stored.voted_key is not None:
            self._voted(replica, new.epoch, stored.voted_key, "has stored")

    def _voted(self, replica: Replica, epoch: int, vote: ReplicaKey | None, how: str) -> None:
        key = replica.key
        known = self._votes.get((key, epoch))
        if known is None:
            if vote is not None:
                self._votes[key, epoch] = vote
                self._check_asked(replica, epoch, vote)
        elif vote is None or not any(self.evidence.is_vote_for(a, b, key) for a, b in ((vote, known), (known, vote))):
            fact = f"{key} voted for {known} in epoch {epoch}"
            self.violated(fact, f"it {how} {'no vote' if vote is None else f'a vote for {vote}'} in it", (key.id,))

    def _check_asked(self, replica: Replica, epoch: int, vote: ReplicaKey) -> None:
        key = replica.key
        is_own = self.evidence.is_vote_for(vote, key, key)
        if not is_own and not self.evidence.requests_for(key, epoch, vote):
            fact = f"{key} voted for {vote} in epoch {epoch}"
            self.violated(fact, f"no vote request of {vote} in epoch {epoch} has reached it", (key.id, vote.id))

    def message_sent(self, message: Message) -> None:
        if message.api_key != VOTE.key or message.is_request or message.request is None:
            return
        voter, request, response = self.evidence.replica_at(message.source), message.request.value, message.value
        if voter is None or not isinstance(request, VoteRequest) or not isinstance(response, VoteResponse):
            return
        is_granted = response.vote_granted and ErrorCode.none == response.error == response.partition_error
        if is_granted and not request.pre_vote:
            self._check_durable(voter, request.replica, request.replica_epoch)

    def _check_durable(self, voter: Replica, candidate: ReplicaKey, epoch: int) -> None:
        """By now the voter may have gone on to a later epoch; then what it had stored in this one counts."""
        state = voter.durable_election_state()
        vote = self.evidence.stored_votes.get((voter.key, epoch))
        if state is not None and state.epoch == epoch:
            vote = voter.key if state.leader_id == voter.key.id else state.voted_key
        if not self.evidence.is_vote_for(vote, candidate, voter.key):
            fact = f"{voter.key} granted {candidate} its vote in epoch {epoch}"
            holds = "never held a vote" if vote is None else f"holds a vote for {vote}"
            self.violated(fact, f"its device {holds} in that epoch", (voter.key.id, candidate.id))
