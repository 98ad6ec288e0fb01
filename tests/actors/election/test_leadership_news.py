"""How nodes hear what they must hear: of a newer high watermark, of the leader, and of peers without pre-votes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from kraft_trio.actors.election.role_changes import Situation, judge
from kraft_trio.actors.election.vote_round import VoteRound
from kraft_trio.actors.peers.voter_addresses import VoterAddresses
from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.messages import Stamp, VoteRoundEnded
from kraft_trio.protocol.roles import Candidate, Event, Follower, Prospective
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.wire.api import API_VERSIONS, BEGIN_QUORUM_EPOCH
from kraft_trio.wire.apis.vote import VOTE, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.epoch_context import lone_epoch
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster
from tests.support.timing import set_timing
from tests.support.voter_change_requests import remove_voter, voters_everywhere

FETCH_TIMEOUT_S = 2.0
"""The default; a Fetch is parked for a quarter of it."""


@on_cluster()
async def test_followers_hear_of_a_high_watermark_before_their_timeout(
    cluster: Cluster,
) -> None:
    """KIP-1166: a parked fetch whose high watermark is behind is answered, without records if there are none."""
    set_timing(cluster)
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    # The followers alone commit: the fetch of one waits already when that of the other makes the majority.
    cluster.machines[leader.key.id].disk.sync_latency = lambda: 0.02
    for _ in range(3):
        await leader.append([b"value"])
        await cluster.wait_until_alike(within_s=0.05)


@on_cluster()
async def test_a_leader_announces_itself_only_to_voters_not_fetching(
    cluster: Cluster,
) -> None:
    set_timing(cluster)
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    leader_host = cluster.machines[leader.key.id].host
    silent = cluster.others(leader)[0]
    silent_host = cluster.machines[silent.key.id].host

    def announcements() -> int:
        """Tries included that got no further than the question for versions on a new connection."""
        sent = cluster.network.requests_sent
        return sent[leader_host, BEGIN_QUORUM_EPOCH.key] + sent[leader_host, API_VERSIONS.key]

    at_first = announcements()
    assert at_first == 4, "at once, to both other voters, each on a new connection"
    await trio.sleep(5 * FETCH_TIMEOUT_S)
    assert announcements() == at_first
    # What one voter sends to the leader no longer arrives, answers included; the other way nothing is lost.
    cluster.network.one_way(silent_host, leader_host)
    await trio.sleep(5 * FETCH_TIMEOUT_S)
    assert announcements() >= at_first + 5
    assert leader.view.epoch == 1, "the others fetch on, and nobody is elected"
    cluster.heal()
    await cluster.wait_until_alike()


@on_cluster()
async def test_a_leader_announces_itself_to_a_removed_bootstrap_server_until_it_fetches(cluster: Cluster) -> None:
    set_timing(cluster)
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    gone, other = cluster.others(leader)
    assert (await remove_voter(cluster, leader, gone.key)).error == ErrorCode.none
    await cluster.wait_until(lambda: voters_everywhere(cluster, *sorted((leader.key.id, other.key.id))))
    host = cluster.machines[leader.key.id].host

    def announcements() -> int:
        return cluster.network.requests_sent[host, BEGIN_QUORUM_EPOCH.key]

    at_first = announcements()
    await trio.sleep(10 * FETCH_TIMEOUT_S)
    assert announcements() == at_first
    cluster.network.one_way(cluster.machines[gone.key.id].host, host)
    tried = cluster.network.requests_sent[host, API_VERSIONS.key]
    await trio.sleep(10 * FETCH_TIMEOUT_S)
    assert tried < cluster.network.requests_sent[host, API_VERSIONS.key] <= tried + 10
    assert leader.view.epoch == 1


@on_cluster(observers=1)
async def test_an_observer_finds_the_leader_and_its_successor(cluster: Cluster) -> None:
    """KAFKA-17030, 17751: nobody announces a leader to an observer, so it asks the bootstrap servers."""
    observer = cluster.nodes[4]
    leader = await cluster.wait_for_leader()
    await leader.append([b"first"])
    await cluster.wait_until_alike()
    cluster.machines[leader.key.id].kill()
    successor = await cluster.wait_for_leader(other_than=leader)
    await successor.append([b"second"])
    await cluster.wait_until(lambda: values_in(observer) == [b"first", b"second"])
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
@on_cluster(started=())
async def test_a_peer_without_pre_votes_makes_one_a_candidate_at_once(cluster: Cluster, refuse_by: str) -> None:
    """KIP-996, "Compatibility"."""
    client = PeersOfBeforePreVote(refuse_by)
    stamp = Stamp(3, 1)
    epoch = lone_epoch(cluster, 1, stamp)
    context = attrs.evolve(epoch.context, addresses=VoterAddresses(client, LISTENER))  # type: ignore[arg-type]
    voters = cluster.initial_voters
    with trio.fail_after(1):
        await VoteRound(context, Prospective(context.epoch), log_end=context.log.end, voters=voters).run()
    assert client.asked >= 1
    [ended] = epoch.told
    assert ended == VoteRoundEnded(stamp, won=False, skip_pre_vote=True)
    now = Situation(
        role=Prospective(3),
        stamp=stamp,
        key=cluster.key_of(1),
        voters=voters,
        log_end=OffsetAndEpoch(0, 0),
        successors=(),
        may_campaign=True,
        highest_requested_epoch=3,
    )
    assert judge(now, ended).change == (Event.PRE_VOTE_WON, Candidate(4))
    assert judge(attrs.evolve(now, stamp=Stamp(3, 2)), ended).change is None, "of an earlier stay"
    await context.log.close()


@on_cluster()
async def test_a_voter_learns_the_leaders_new_address_from_a_peer(cluster: Cluster) -> None:
    """Seed 500589.  It was removed without hearing of it, so that the leader, which has moved, does not tell it."""

    async def take(*steps: str) -> None:
        for step in steps:
            await parse_step(step).take(cluster)

    await take("elect 1", "kill 3", "kill 2", "move 2", "start 2", "wait 5s", "elect 2", "remove-voter 3")
    # It hears from node 1 who leads, but not where: that one did not store it, and its own log has the old address.
    await take("bridge 1 between 2 | 3", "start 3")
    behind = cluster.nodes[3]
    await behind.election.view.wait_for(lambda view: view.leader_id == 2)
    await take("kill 3", "heal", "start 3")
    behind = cluster.nodes[3]
    assert behind.log.voters.voters.is_voter(behind.key)
    with trio.fail_after(30):
        await cluster.wait_until_alike()
    assert not behind.log.voters.voters.is_voter(behind.key)
