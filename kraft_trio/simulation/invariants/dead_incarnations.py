from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.membership import is_majority, is_member, is_same_replica, text_of, text_of_keys
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest
from kraft_trio.wire.apis.vote import VOTE, VoteRequest

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.simulation.network.message import Message


class DeadIncarnations(Invariant):
    """A replica that lost its disk has lost its votes and its log, so what it promised under its old directory id it no
    longer keeps; counted by its id alone it would be a member that votes twice (KIP-853 "Directory id", scenario S2).
    So who elects a leader is a majority of members of the leader's own set, each by id and directory id, and each has
    durably voted for that leader in that epoch.  And what a replica asks for it asks for under the directory id of the
    disk that it runs on."""

    number = 22
    title = "a dead incarnation never counts for anything"

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        role = new.role
        if not isinstance(role, Leader) or (old is not None and old.role is role):
            return
        key, voters = replica.key, self.evidence.voters.newest(replica)
        fact = f"{key} was elected leader of epoch {new.epoch} by {text_of_keys(role.granting_voters)}"
        concerned = (key.id, *(member.id for member in role.granting_voters))
        members = [voter.key for voter in voters if any(is_same_replica(voter.key, k) for k in role.granting_voters)]
        if not is_majority(len(members), voters):
            self.violated(fact, f"its voters are {text_of(voters)}", concerned)
        for voter in sorted(role.granting_voters):
            if not is_member(voters, voter):
                self.violated(fact, f"{voter} is not in its voters {text_of(voters)}", concerned)
            vote = self.evidence.stored_vote(voter, new.epoch)
            if not self.evidence.is_vote_for(vote, key, voter):
                held = "no vote" if vote is None else f"a vote for {vote}"
                self.violated(fact, f"the device of {voter} never held but {held} in that epoch", concerned)

    def message_sent(self, message: Message) -> None:
        if not message.is_request or message.api_key not in {FETCH.key, VOTE.key}:
            return
        sender = self.evidence.replica_at(message.source)
        if sender is None:
            return
        request = message.value
        said: list[ReplicaKey] = []
        if isinstance(request, FetchRequest) and request.replica_id >= 0:
            said = [ReplicaKey(request.replica_id, partition.replica_directory_id) for partition in request.partitions]
        elif isinstance(request, VoteRequest):
            said = [request.replica]
        for key in said:
            if key != sender.key:
                fact = f"{sender.key} runs on {message.source}"
                self.violated(fact, f"it sends a {type(request).__name__} as {key}", (sender.key.id,))
