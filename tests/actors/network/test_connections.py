"""Connections that misbehave end, and nothing else does."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from kraft_trio.actors.network.connection_places import IDLE_ENOUGH_S
from kraft_trio.actors.network.network_server import LOOK_EVERY_S
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.errors import NetworkError
from kraft_trio.node_tree import LOOK_EVERY_S as LOOK_AT_FILES_S
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import API_VERSIONS, PRODUCE
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.codec import encode_request, response_correlation_id
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, STRANGER, TOPIC, TOPIC_ID, RawClient, batch_of
from tests.support.timing import set_timing

HELLO = encode_request(API_VERSIONS, 3, 1, "test", ApiVersionsRequest())

GARBAGE = {
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "a length of 2 GiB": b"\x7f\xff\xff\xff",
    "a negative length": b"\xff\xff\xff\xff",
    "an empty frame": bytes(4),
    "an unknown api key": b"\x00\x00\x00\x0a" + b"\x7f\x00\x00\x00\x00\x00\x00\x01\xff\xff",
    "an unknown version": b"\x00\x00\x00\x0a" + b"\x00\x34\x00\x63\x00\x00\x00\x01\xff\xff",
    "a request with bytes to spare": (len(HELLO) - 3).to_bytes(4, "big") + HELLO[4:] + b"x",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("before", [b"", HELLO], ids=["at first", "after a request"])
@on_cluster(voters=1)
async def test_garbage_ends_its_connection_only(cluster: Cluster, garbage: bytes, before: bytes) -> None:
    leader = await cluster.wait_for_leader()
    stamp, end = leader.view.stamp, leader.log.end_offset
    async with RawClient.connected(cluster, 1) as client:
        stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
        await stream.send_all(before + garbage)
        with trio.fail_after(1), suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
        assert (leader.view.stamp, leader.log.end_offset) == (stamp, end)
        assert (await client.produce(batch_of(b"value"))).base_offset == end


@on_cluster(voters=1, settings={"kraft.initial.request.max.bytes": "500"})
async def test_only_a_connection_that_has_proved_itself_may_send_much(cluster: Cluster) -> None:
    """A first request above `kraft.initial.request.max.bytes` is not even read."""
    await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        assert (await client.produce(batch_of(bytes(1000)))).error == ErrorCode.none
    stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
    await stream.send_all((501).to_bytes(4, "big"))
    with trio.fail_after(1):
        assert await stream.receive_some() == b""


@pytest.mark.parametrize("sent", [b"", HELLO[:7], HELLO], ids=["nothing", "half a request", "a request"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@on_cluster(voters=1)
async def test_a_connection_that_ends_early_does_not_end_the_node(cluster: Cluster, sent: bytes, reset: bool) -> None:
    set_timing(cluster)
    leader = await cluster.wait_for_leader()
    stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
    if sent:
        await stream.send_all(sent)
    if reset:
        cluster.network.isolate(CLIENT, silent=False)
        cluster.heal()
    else:
        await stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    await leader.append([b"value"])


@on_cluster()
async def test_a_client_that_stops_waiting_changes_nothing_for_others(cluster: Cluster) -> None:
    """Its append commits all the same; its parked fetch is answered into the void."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    set_timing(cluster, sync_s=0.1)
    async with RawClient.connected(cluster, leader.key.id) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.produce, batch_of(b"value"))
        await cluster.wait_until(lambda: b"value" in values_in(leader))
        nursery.cancel_scope.cancel()
    async with RawClient.connected(cluster, leader.key.id) as client, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: client.fetch(leader.log.end_offset, max_wait_ms=50, min_bytes=1))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await leader.append([b"next"])
    assert values_in(leader) == [b"value", b"next"]


@on_cluster(voters=1, settings={"max.connections": "2"})
async def test_connections_above_the_limit_are_refused(cluster: Cluster) -> None:
    set_timing(cluster)
    await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as first:
        async with RawClient.connected(cluster, 1):
            with pytest.raises(NetworkError):
                async with RawClient.connected(cluster, 1):
                    pass
        await trio.testing.wait_all_tasks_blocked()
        async with RawClient.connected(cluster, 1) as third:
            assert (await third.describe()).leader_id == (await first.describe()).leader_id == 1


@on_cluster(
    voters=1,
    settings={
        "max.connections": "2",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node-1",
    },
)
async def test_who_may_not_be_a_replica_makes_room_like_any_client(cluster: Cluster) -> None:
    """A denied Vote does not keep a connection's place, nor give it the memory and the turns of replicas."""
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as first, RawClient.connected(cluster, 1) as second:
        for client in (first, second):
            answer = await client.vote(STRANGER, leader.view.epoch + 1, (9, 9))
            assert answer.error == ErrorCode.cluster_authorization_failed
        await trio.sleep(2 * IDLE_ENOUGH_S)
        async with RawClient.connected(cluster, 1) as third:
            assert (await third.describe()).error == ErrorCode.cluster_authorization_failed


def test_who_may_no_longer_be_a_replica_makes_room_like_any_client(tmp_path: Path) -> None:
    """The rules are read again while its connection is open."""
    rules = tmp_path / "acl.toml"
    rules.write_text('[[allow]]\nprincipal = "User:ANONYMOUS"\noperations = ["CLUSTER_ACTION"]\n')
    settings = {
        "max.connections": "2",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node-1",
        "kraft.acl.file": str(rules),
    }

    @on_cluster(voters=1, settings=settings)
    async def story(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        async with RawClient.connected(cluster, 1) as first, RawClient.connected(cluster, 1) as second:
            for client in (first, second):
                assert (await client.vote(STRANGER, 0, (0, 0))).error != ErrorCode.cluster_authorization_failed
            await trio.sleep(2 * IDLE_ENOUGH_S)
            with pytest.raises(NetworkError):
                async with RawClient.connected(cluster, 1):
                    pass
            rules.write_text("")
            await trio.sleep(2 * (LOOK_AT_FILES_S + LOOK_EVERY_S))
            async with RawClient.connected(cluster, 1) as third:
                assert (await third.describe()).error == ErrorCode.cluster_authorization_failed

    story()


@on_cluster(voters=1)
async def test_requests_of_one_connection_are_answered_in_order(cluster: Cluster) -> None:
    """The first waits for its commit; the second, which could be answered at once, comes after it."""
    await cluster.wait_for_leader()
    cluster.machines[1].disk.sync_latency = lambda: 0.1
    stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
    produce = ProduceRequest(-1, 1000, (ProducePartition(TOPIC, TOPIC_ID, 0, batch_of(b"value")),))
    begun = trio.current_time()
    await stream.send_all(encode_request(PRODUCE, 9, 1, "test", produce))
    await stream.send_all(encode_request(API_VERSIONS, 3, 2, "test", ApiVersionsRequest()))
    reader = FrameReader(stream, 2**20)
    answered = [response_correlation_id(await reader.read() or b"") for _ in range(2)]
    assert answered == [1, 2]
    assert trio.current_time() - begun >= 0.1
