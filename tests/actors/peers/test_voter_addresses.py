"""Where requests to a voter go, and what counts as its answer (docs/explanation/protocol.md#gossip)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import attrs
import pytest

from kraft_trio.actors.peers.voter_addresses import VoterAddresses
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.gossip import Advertisement
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.api import VOTE
from kraft_trio.wire.apis.vote import VoteResponse
from kraft_trio.wire.error_codes import ErrorCode

KEY = ReplicaKey(2, UUID(int=2))
LOGGED, ADVERTISED = Endpoint("logged", 1), Endpoint("advertised", 1)
VOTER = Voter(KEY, Endpoints({"CONTROLLER": LOGGED}))
GRANTED = VoteResponse(vote_granted=True)
SOMEBODY_ELSE = [
    VoteResponse(partition_error=ErrorCode.invalid_voter_key),
    VoteResponse(error=ErrorCode.inconsistent_cluster_id),
]


@attrs.define
class Peers:
    """Stands in for NetworkClient."""

    answers: dict[Endpoint, Any]
    asked: list[tuple[Endpoint, int]] = attrs.field(factory=list)
    """Each endpoint, and the lowest version that was acceptable there."""

    async def request(self, endpoint: Endpoint, api: Any, _request: Any, _timeout_ms: int, _refusal: Any = None) -> Any:
        self.asked.append((endpoint, api.min_version))
        answer = self.answers.get(endpoint, NetworkError("refused"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    request_apart = request


def addresses(peers: Peers, key: ReplicaKey = KEY) -> VoterAddresses:
    made = VoterAddresses(peers, "CONTROLLER")  # type: ignore[arg-type]
    heard = Advertisement(key, 1, 1, Endpoints({"CONTROLLER": ADVERTISED}))
    made.whereabouts = made.whereabouts.with_advertisement(heard)
    return made


async def asked(peers: Peers, times: int, make: Callable[[Peers], VoterAddresses] = addresses) -> list[Any]:
    """What came of so many requests, one after another."""
    outcomes: list[Any] = []
    one = make(peers)
    for _ in range(times):
        try:
            outcomes.append(await one.ask(VOTER, VOTE, object(), 1000))  # type: ignore[arg-type]
        except NetworkError as error:
            outcomes.append(error)
    return outcomes


async def test_the_logged_endpoint_is_kept_while_it_answers() -> None:
    peers = Peers({LOGGED: GRANTED, ADVERTISED: GRANTED})
    assert await asked(peers, 2) == [GRANTED, GRANTED]
    assert [endpoint for endpoint, _ in peers.asked] == [LOGGED, LOGGED]


async def test_requests_take_turns_between_both_endpoints() -> None:
    peers = Peers({})
    await asked(peers, 4)
    assert [endpoint for endpoint, _ in peers.asked] == [LOGGED, ADVERTISED, LOGGED, ADVERTISED]


async def test_the_advertised_endpoint_is_kept_once_it_answers() -> None:
    peers = Peers({ADVERTISED: GRANTED})
    _, *later = await asked(peers, 3)
    assert later == [GRANTED, GRANTED]
    assert [endpoint for endpoint, _ in peers.asked] == [LOGGED, ADVERTISED, ADVERTISED]


@pytest.mark.parametrize("answer", SOMEBODY_ELSE, ids=["another voter", "another cluster"])
async def test_somebody_elses_answer_is_not_the_voters(answer: VoteResponse) -> None:
    peers = Peers({LOGGED: answer, ADVERTISED: answer})
    outcomes = await asked(peers, 2)
    assert all(isinstance(outcome, NetworkError) for outcome in outcomes)
    assert [endpoint for endpoint, _ in peers.asked] == [LOGGED, ADVERTISED]


async def test_a_vote_that_names_nobody_is_not_sent_to_a_hint() -> None:
    """Version 0: two of them that reach the same node would count as two votes."""
    peers = Peers({})
    await asked(peers, 2)
    assert peers.asked == [(LOGGED, 0), (ADVERTISED, 1)]


async def test_a_peer_too_old_to_be_named_was_not_reached() -> None:
    peers = Peers({ADVERTISED: UnsupportedVersionError("Vote v0 only")})
    assert all(isinstance(outcome, NetworkError) for outcome in await asked(peers, 2))


async def test_another_incarnations_advertisement_is_not_used() -> None:
    peers = Peers({})
    await asked(peers, 2, lambda peers: addresses(peers, ReplicaKey(2, UUID(int=99))))
    assert [endpoint for endpoint, _ in peers.asked] == [LOGGED, LOGGED]


async def test_a_static_voter_is_asked_at_its_configured_endpoint_alone() -> None:
    """Requests to it name no directory, so two machines with its id could both vote in one epoch."""
    one, static = addresses(Peers({})), attrs.evolve(VOTER, key=ReplicaKey(2))
    for _ in range(2):
        assert one.endpoint_of(static) == LOGGED
        with pytest.raises(NetworkError):
            await one.ask(static, VOTE, object(), 1000)  # type: ignore[arg-type]
