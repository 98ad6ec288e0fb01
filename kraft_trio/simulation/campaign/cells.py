"""Which messages a run brings to nodes in which role, and where they stand to the voters then."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.actions import ROLES
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.voter_sets import LoggedVoters, is_member
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    ALTER_PARTITION_REASSIGNMENTS,
    BEGIN_QUORUM_EPOCH,
    DISCOVER_VOTERS,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    PRODUCE,
    READ_INDEX,
    REMOVE_RAFT_VOTER,
    TRANSFER_LEADERSHIP,
    UPDATE_RAFT_VOTER,
    VOTE,
)
from kraft_trio.wire.apis.vote import VoteRequest

_PRE_VOTE: Final = "PreVote"

_REQUESTS: Final = {
    api.key: f"{api.name} request"
    for api in (
        *(VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, DISCOVER_VOTERS, READ_INDEX, PRODUCE),
        *(ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_RAFT_VOTER, ALTER_PARTITION_REASSIGNMENTS, TRANSFER_LEADERSHIP),
    )
}
_RESPONSES: Final = {
    api.key: f"{api.name} response"
    for api in (
        *(VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, DISCOVER_VOTERS, READ_INDEX, PRODUCE),
        *(ADD_RAFT_VOTER, UPDATE_RAFT_VOTER),
    )
}
"""Of the requests that nodes send."""

MESSAGES: Final = (f"{_PRE_VOTE} request", f"{_PRE_VOTE} response", *_REQUESTS.values(), *_RESPONSES.values())

VOTER, OBSERVER, STAYS, JOINS, LEAVES, WATCHES = "voter", "observer", "stays", "joins", "leaves", "watches"
SITUATIONS: Final = {
    VOTER: "a member of the newest set in its log, which it knows to be committed",
    OBSERVER: "no member of that set",
    STAYS: "a member of the newest set, which is not known to be committed, and of the set before",
    JOINS: "a member of such a set, but not of the set before",
    LEAVES: "no member of such a set, but of the set before",
    WATCHES: "a member of neither",
}
"""Where a node stands to the voters, with what that means."""

Cell = tuple[str, str, str]
"""A message, a role and a situation."""

CELLS: Final = tuple((message, role, standing) for message in MESSAGES for role in ROLES for standing in SITUATIONS)
"""All of them, also those that are impossible: a leader receives no answer to a Fetch."""


@attrs.define
class CellCoverage:
    """Listens to the messages of one run."""

    facts: RunFacts
    cells: set[Cell] = attrs.field(factory=set)
    _members: dict[ReplicaKey, tuple[LoggedVoters, bool, bool]] = attrs.field(factory=dict)
    """By replica, the newest set in its log, and whether it is a member of that set and of the one before."""

    def delivered(self, message: Message) -> None:
        """Take in a message that has been received; those of clients to clients do not count."""
        name = (_REQUESTS if message.is_request else _RESPONSES).get(message.api_key)
        if name is None:
            return
        replica = self.facts.replica_at(message.target)
        if replica is None or replica.view is None:
            return
        if message.api_key == VOTE.key:
            request = message if message.is_request else message.request
            if request is not None and isinstance(request.value, VoteRequest) and request.value.pre_vote:
                name = name.replace(VOTE.name, _PRE_VOTE)
        self.cells.add((name, type(replica.view.role).__name__, self._situation(replica)))

    def _situation(self, replica: Replica) -> str:
        newest = self.facts.voters.last(replica)
        known = self._members.get(replica.key)
        if known is None or known[0] is not newest:
            was_voter = any(is_member(before, replica.key) for before in self.facts.voters.before_newest(replica))
            known = newest, is_member(newest.voters, replica.key), was_voter
            self._members[replica.key] = known
        _, is_voter, was_voter = known
        if newest.is_configured or newest.next_offset <= (replica.high_watermark or 0):
            return VOTER if is_voter else OBSERVER
        if is_voter:
            return STAYS if was_voter else JOINS
        return LEAVES if was_voter else WATCHES
