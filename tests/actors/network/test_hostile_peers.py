"""What one peer or client sends must end or wedge nobody: not the node, not the epoch, not a connection next to it."""

from __future__ import annotations

import random

import attrs
import pytest
import trio
import trio.testing

from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.channels import Reply
from kraft_trio.errors import NetworkError
from kraft_trio.messages import BeginQuorumEpochReceived, FetchReceived
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER
from kraft_trio.storage.batches.batch import peek_header
from kraft_trio.wire.api import API_VERSIONS, DESCRIBE_QUORUM, PRODUCE
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.apis.produce import MAX_MESSAGE_CHARACTERS, ProducePartitionResponse, ProduceResponse
from kraft_trio.wire.codec import encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.tcp_network import TcpNetwork
from tests.actors.test_rules import leading
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, TOPIC, TOPIC_ID


def test_a_refusal_that_quotes_the_client_fits_every_version() -> None:
    """Old versions have room for 32,767 bytes; what a client sent may be longer, and four bytes a character."""
    answer = ProducePartitionResponse.failed(ErrorCode.corrupt_message, "\U0001f4a5" * 40_000)
    assert answer.error_message is not None
    assert len(answer.error_message) == MAX_MESSAGE_CHARACTERS
    for version in range(PRODUCE.min_version, PRODUCE.max_version + 1):
        assert encode_response(PRODUCE, version, 1, ProduceResponse((attrs.evolve(answer, topic_name="t"),)))


async def test_a_host_name_nobody_can_look_up_is_a_network_error() -> None:
    for host in ("a..b", "x" * 64):
        with pytest.raises(NetworkError):
            await TcpNetwork().connect(Endpoint(host, 1))


@on_cluster()
async def test_a_follower_takes_its_leaders_new_address(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    await follower.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    moved = Endpoints({LISTENER: Endpoint("moved", 1)})
    begin: Reply[object] = Reply()
    request = BeginQuorumEpochRequest(
        CLUSTER_ID, -1, TOPIC, 0, follower.key.directory_id, leader.key.id, leader.view.epoch, moved
    )
    await follower.election.tell(BeginQuorumEpochReceived(request, begin))  # type: ignore[arg-type]
    await begin.receive()
    assert follower.view.leader_endpoints == moved


def consumer_fetch(offset: int, *, min_bytes: int, max_wait_ms: int, max_bytes: int = 10_000) -> FetchReceived:
    partition = FetchPartition(TOPIC, TOPIC_ID, 0, fetch_offset=offset, max_bytes=max_bytes)
    request = FetchRequest(min_bytes=min_bytes, max_wait_ms=max_wait_ms, partitions=(partition,))
    reply: Reply[FetchPartitionResponse] = Reply()
    return FetchReceived(request, partition, None, reply)


@pytest.mark.parametrize("max_wait_ms", [0, 500])
@on_cluster(voters=1, started=())
async def test_a_consumer_gets_the_tail_though_it_asked_for_more(cluster: Cluster, max_wait_ms: int) -> None:
    """fetch.min.bytes says how long to wait, not that less is nothing."""
    async with leading(cluster, 1) as leader:
        await trio.testing.wait_all_tasks_blocked()
        fetch = consumer_fetch(0, min_bytes=100_000, max_wait_ms=max_wait_ms)
        started = trio.current_time()
        await leader.mailbox.send(fetch)
        answer = await fetch.reply.receive()
        assert answer.records
        assert peek_header(answer.records).base_offset == 0
        assert trio.current_time() - started == pytest.approx(max_wait_ms / 1000)


@on_cluster(voters=1)
async def test_what_expired_in_the_queue_costs_no_connection(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        await cluster.wait_for_leader()
        client = NetworkClient(cluster.network.seen_from(CLIENT), "test", random.Random(0), 2**20)
        await nursery.start(client.run)
        request = DescribeQuorumRequest(TOPIC)
        await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, request, 1000)
        asked = cluster.network.requests_sent[CLIENT, API_VERSIONS.key]
        with pytest.raises(NetworkError, match="not sent in time"):
            await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, request, 0)
        await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, request, 1000)
        assert cluster.network.requests_sent[CLIENT, API_VERSIONS.key] == asked, "no new connection was made"
        nursery.cancel_scope.cancel()


async def test_an_answer_that_cannot_be_sent_ends_one_connection(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is encoded in the step that gives it; a failure there must not end the leader."""
    cluster = Cluster(Setup(voters=1))
    async with lone_node(cluster, 1) as leader, trio.open_nursery() as nursery:
        await leader.append([b"leading"])
        stamp = leader.view.stamp
        client = NetworkClient(cluster.network.seen_from(CLIENT), "test", random.Random(0), 2**20)
        await nursery.start(client.run)

        def described(*_: object, **__: object) -> None:
            raise OverflowError("a number that has no room in the protocol")

        with monkeypatch.context() as broken:
            broken.setattr("kraft_trio.actors.network.server_connection.encode_response_parts", described)
            with pytest.raises(NetworkError):
                await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC), 1000)
        await leader.append([b"still leading"])
        assert leader.view.stamp == stamp
        nursery.cancel_scope.cancel()
