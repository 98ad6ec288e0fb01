"""How nodes hear what they must hear: of a newer high watermark, of the leader, and of peers without pre-votes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from kraft_trio.actors.role_changes import Situation, next_role
from kraft_trio.actors.vote_round import VoteRound
from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.messages import Stamp, VoteRoundEnded
from kraft_trio.protocol.roles import Candidate, Event, Follower, Prospective
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.wire.api import API_VERSIONS, BEGIN_QUORUM_EPOCH
from kraft_trio.wire.apis.vote import VOTE, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.cluster import Cluster, endpoint_of, key_of, voters_of

FETCH_TIMEOUT_S = 2.0
"""The default; a Fetch is parked for a quarter of it."""


async def test_followers_hear_of_a_newer_high_watermark_long_before_their_fetch_times_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """KIP-1166: a parked fetch whose high watermark is behind is answered, without records if there are none."""
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        for _ in range(3):
            await leader.append([b"value"])
            await cluster.wait_until_alike(within_s=0.05)


async def test_a_leader_announces_itself_to_voters_that_do_not_fetch_and_to_no_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        leader_host = endpoint_of(leader.key.id).host
        silent = cluster.others(leader)[0]
        silent_host = endpoint_of(silent.key.id).host

        def announcements() -> int:
            """Tries included that got no further than the question for versions on a new connection."""
            sent = cluster.network.requests_sent
            return sent[leader_host, BEGIN_QUORUM_EPOCH.key] + sent[leader_host, API_VERSIONS.key]

        at_first = announcements()
        assert at_first == 4, "at once, to both other voters, each on a new connection"
        await trio.sleep(5 * FETCH_TIMEOUT_S)
        assert announcements() == at_first
        # What one voter sends to the leader no longer arrives, answers included; the other way nothing is lost.
        cluster.network.cut(
            lambda source, target: (source.host, target.host) == (silent_host, leader_host), silent=True
        )
        await trio.sleep(5 * FETCH_TIMEOUT_S)
        assert announcements() >= at_first + 5
        assert leader.view.epoch == 1, "the others fetch on, and nobody is elected"
        cluster.heal()
        await cluster.wait_until_alike()


async def test_an_observer_finds_the_leader_and_its_successor_by_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """KAFKA-17030, 17751: nobody announces a leader to an observer, so it asks the bootstrap servers."""
    async with Cluster().running() as cluster:
        cluster.format(4, directory_id=UUID(int=4444))
        observer = await cluster.restart(4)
        leader = await cluster.wait_for_leader()
        await leader.append([b"first"])
        await cluster.wait_until_alike()
        cluster.kill(leader.key.id)
        successor = await cluster.wait_for_leader()
        await successor.append([b"second"])
        await cluster.wait_until(lambda: cluster.values(observer) == [b"first", b"second"])
        assert isinstance(observer.view.role, Follower)
        assert observer.view.leader_id == successor.key.id


@attrs.define
class PeersOfBeforePreVote:
    """A network client whose peers have Vote only up to version 1, or refuse a pre-vote as such."""

    refuse_by: str
    asked: int = 0

    async def request(self, endpoint: Endpoint, api: Any, request: Any, timeout_ms: int) -> VoteResponse:
        await trio.lowlevel.checkpoint()
        assert api is VOTE
        assert request.pre_vote
        self.asked += 1
        if self.refuse_by == "version":
            raise UnsupportedVersionError("Vote v1 cannot carry a pre-vote")
        return VoteResponse(error=ErrorCode.unsupported_version)


@pytest.mark.parametrize("refuse_by", ["version", "error"])
async def test_a_peer_without_pre_votes_makes_one_a_candidate_at_once(
    refuse_by: str, autojump_clock: trio.testing.MockClock
) -> None:
    """KIP-996, "Compatibility"."""
    cluster = Cluster()
    client = PeersOfBeforePreVote(refuse_by)
    stamp = Stamp(3, 1)
    context = attrs.evolve(cluster.epoch_context(1, stamp), client=client)
    voters = voters_of([1, 2, 3])
    with trio.fail_after(1):
        await VoteRound(context, pre_vote=True, log_end=context.log.end, voters=voters).run()
    assert client.asked >= 1
    [ended] = cluster.told[1]
    assert ended == VoteRoundEnded(stamp, won=False, skip_pre_vote=True)
    now = Situation(
        role=Prospective(3),
        stamp=stamp,
        key=key_of(1),
        voters=voters,
        log_end=OffsetAndEpoch(0, 0),
        successors=(),
        may_campaign=True,
    )
    assert next_role(now, ended) == (Event.PRE_VOTE_WON, Candidate(4))
    assert next_role(attrs.evolve(now, stamp=Stamp(3, 2)), ended) is None, "of an earlier stay"
    await context.log.close()
