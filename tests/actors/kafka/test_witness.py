"""A witness leads only if nobody else can, and then hands over (docs/how-to/witness.md)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import trio

from kraft_trio.client.admin import AdminClient
from kraft_trio.errors import OutcomeUnknownError
from kraft_trio.protocol.roles import Follower, Leader, Prospective
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.wire.api import API_VERSIONS, TRANSFER_LEADERSHIP, VOTE, Api
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft_trio.wire.apis.controllers_only import CONTROLLERS_ONLY
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipRequest
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.codec import encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, FORGED, TOPIC, RawClient, batch_of
from tests.support.voter_change_requests import ask, elected

WITNESS = 3


def leaders(cluster: Cluster) -> list[int]:
    """The ids of the nodes that are elected from now on, in their order."""
    found: list[int] = []

    def note(event: TraceEvent) -> None:
        if event.kind == "role" and event.role == "Leader" and event.node is not None:
            found.append(event.node)

    cluster.trace.listeners.append(note)
    return found


async def kill(cluster: Cluster, node_id: int) -> None:
    cluster.machines[node_id].kill()
    await cluster.machines[node_id].wait_until_ended()


@pytest.mark.parametrize("seed", range(4))
def test_it_is_not_elected_while_others_can_be(seed: int) -> None:
    @on_cluster(witnesses=(WITNESS,), seed=seed)
    async def test(cluster: Cluster) -> None:
        found = leaders(cluster)
        for _ in range(3):
            leader = await cluster.wait_for_leader()
            await cluster.wait_until_alike()
            await kill(cluster, leader.key.id)
            await cluster.wait_for_leader(other_than=leader)
            await cluster.machines[leader.key.id].start()
            await cluster.wait_until_alike()
        assert len(found) >= 4
        assert WITNESS not in found

    test()


async def lead_by_the_longer_log(cluster: Cluster) -> int:
    """Let the witness have a record that no other running voter has.  Returns the id of the one that runs."""
    active = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    [behind] = [node.key.id for node in cluster.others(active) if node.key.id != WITNESS]
    cluster.partition({active.key.id, WITNESS}, {behind}, silent=True)
    await active.append([b"missed"])
    await kill(cluster, active.key.id)
    cluster.heal()
    return behind


@on_cluster(witnesses=(WITNESS,))
async def test_it_passes_on_what_the_other_voter_has_missed(cluster: Cluster) -> None:
    found = leaders(cluster)
    behind = await lead_by_the_longer_log(cluster)
    with trio.fail_after(20):
        await cluster.nodes[behind].append([b"next"])
    assert found[-2:] == [WITNESS, behind]
    assert found.count(WITNESS) == 1


@on_cluster(witnesses=(WITNESS,))
async def test_it_appends_nothing_of_clients(cluster: Cluster) -> None:
    behind = await lead_by_the_longer_log(cluster)
    witness = await elected(cluster)
    assert witness.key.id == WITNESS
    hosts = [cluster.machines[id].host for id in (behind, WITNESS)]
    cluster.network.clog(*hosts)
    end = witness.log.end_offset
    async with RawClient.connected(cluster, WITNESS) as client:
        answer = await client.produce(batch_of(b"value"))
    assert answer.error == ErrorCode.not_leader_or_follower
    assert "this leader is a witness" in (answer.error_message or "")
    assert witness.log.end_offset == end
    cluster.network.unclog(*hosts)
    await cluster.wait_for_leader(other_than=witness)


@on_cluster(witnesses=(WITNESS,))
async def test_it_waits_even_if_its_leader_names_it_first(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    found = leaders(cluster)
    request = TransferLeadershipRequest(CLUSTER_ID, WITNESS, 5000)
    assert (await ask(cluster, leader, TRANSFER_LEADERSHIP, request)).error == ErrorCode.none
    await cluster.wait_for_leader(other_than=leader)
    assert found
    assert WITNESS not in found


@pytest.mark.parametrize("asks", ["a node", "an administrator"])
@on_cluster(witnesses=(WITNESS,))
async def test_nobody_asks_for_ever_that_it_leads(cluster: Cluster, asks: str) -> None:
    """Each time it is asked, the quorum is without a leader for a moment."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    epoch, began_s = leader.view.epoch, trio.current_time()
    bootstrap = [cluster.endpoint_of(node_id) for node_id in cluster.nodes]
    administrator = AdminClient(bootstrap, network=cluster.network.seen_from(CLIENT))
    asked = leader if asks == "a node" else administrator
    with pytest.raises(OutcomeUnknownError, match=f"transfer leadership to node {WITNESS}: 3 leaders resigned: node "):
        await asked.transfer_leadership(WITNESS)
    assert trio.current_time() - began_s < 15
    await cluster.wait_for_leader()
    assert leader.view.epoch <= epoch + 6


@pytest.mark.parametrize(("silent_s", "is_granted"), [(0.5, False), (1.2, True)])
def test_a_pre_vote_makes_it_give_up_a_leader_that_is_silent(silent_s: float, is_granted: bool) -> None:
    """Long before its own fetch timeout of two seconds is over."""

    @on_cluster(witnesses=(WITNESS,), invariants=FORGED)
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        [other] = [node for node in cluster.others(leader) if node.key.id != WITNESS]
        await kill(cluster, other.key.id)
        cluster.partition({leader.key.id}, {WITNESS}, silent=True)
        await trio.sleep(silent_s)
        witness = cluster.nodes[WITNESS]
        assert isinstance(witness.view.role, Follower)
        end = witness.log.end
        request = VoteRequest(
            CLUSTER_ID,
            WITNESS,
            TOPIC,
            0,
            other.key,
            witness.view.epoch,
            witness.key.directory_id,
            end.offset,
            end.epoch,
            pre_vote=True,
        )
        assert (await ask(cluster, witness, VOTE, request)).vote_granted == is_granted
        assert isinstance(witness.view.role, Prospective if is_granted else Follower)
        assert witness.view.epoch == leader.view.epoch

    test()


@on_cluster(witnesses=(1, 2, 3))
async def test_witnesses_alone_do_not_wait_for_ever(cluster: Cluster) -> None:
    """None of them has a log that is behind, so none is ever known to be needed."""
    with trio.fail_after(120):
        leader = await elected(cluster)
    assert leader.view.epoch == 1


@on_cluster(voters=1, witnesses=(1,))
async def test_a_sole_witness_leads(cluster: Cluster) -> None:
    with trio.fail_after(1):
        leader = await elected(cluster)
    await trio.sleep(20)
    assert isinstance(leader.view.role, Leader)


@on_cluster(witnesses=(WITNESS,))
async def test_an_election_that_fails_costs_no_epoch(cluster: Cluster) -> None:
    """Without a majority, a witness that waits and asks for pre-votes again and again raises no epoch."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    cluster.partition({WITNESS}, {1, 2}, silent=True)
    await trio.sleep(60)
    cluster.heal()
    witness = cluster.nodes[WITNESS]
    await cluster.wait_until(lambda: isinstance(witness.view.role, Follower) and witness.view.role.has_fetched)
    assert (witness.view.epoch, witness.view.leader_id) == (leader.view.epoch, leader.key.id)


# What brokers and controllers of Apache Kafka see in it (docs/reference/kafka.md#what-others-see-of-a-witness)


@pytest.mark.parametrize("api", CONTROLLERS_ONLY.values(), ids=lambda api: api.name)
def test_it_says_that_it_is_not_the_controller(api: Api[Any, Any]) -> None:
    """A broker looks for another controller after NOT_CONTROLLER, but not if it misses an API."""

    @on_cluster(witnesses=(WITNESS,))
    async def test(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        async with RawClient.connected(cluster, WITNESS) as client:
            ranges = {one.key: (one.min_version, one.max_version) for one in (await versions(client)).apis}
            assert ranges[api.key] == (api.min_version, api.max_version)
            for version in range(api.min_version, api.max_version + 1):
                # A body that no schema fits: it is not read.
                frame = struct.pack(">hhih", api.key, version, version, -1) + b"\xff" * 40
                assert await exchange(cluster, WITNESS, frame) == refusal_of(api, version)

    test()


@on_cluster(witnesses=(WITNESS,))
async def test_another_node_does_not(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        assert not CONTROLLERS_ONLY.keys() & {api.key for api in (await versions(client)).apis}
    frame = struct.pack(">hhih", next(iter(CONTROLLERS_ONLY)), 1, 1, -1)
    assert await exchange(cluster, leader.key.id, frame) is None


async def versions(client: RawClient) -> ApiVersionsResponse:
    return await client.ask(API_VERSIONS, ApiVersionsRequest("test", "1"))


async def exchange(cluster: Cluster, node_id: int, frame: bytes) -> bytes | None:
    """The answer to one frame, without its length; None if the node closes the connection."""
    stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(node_id))
    async with stream:
        await stream.send_all(struct.pack(">i", len(frame)) + frame)
        answer = await FrameReader(stream, 2**20).read()
        return None if answer is None else bytes(answer)


def refusal_of(api: Api[Any, Any], version: int) -> bytes:
    return encode_response(api, version, version, api.error_response(ErrorCode.not_controller, None))[4:]
