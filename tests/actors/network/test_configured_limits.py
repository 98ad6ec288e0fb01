"""Each limit of docs/reference/limits.md is what its key says, and its metric counts what exceeds it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from uuid import UUID

import pytest
import trio

from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError
from kraft_trio.limits.voter_change_rate import VoterChangeRate
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.batches.compression import Compression
from kraft_trio.wire.api import ADD_RAFT_VOTER, FETCH, UPDATE_RAFT_VOTER
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.codec import encode_request
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.membership.test_auto_join import JOIN
from tests.actors.network.test_connection_places import HELLO, closes_after_s
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, TOPIC, TOPIC_ID, RawClient, batch_of
from tests.support.voter_change_requests import voters_everywhere

NOWHERE = Endpoints({LISTENER: Endpoint("nowhere", 1)})


def metric(cluster: Cluster, name: str, node_id: int = 1) -> float | str:
    return cluster.nodes[node_id].metrics.values()[name]


@on_cluster(voters=1, settings={"kraft.request.grace.ms": "11000", "kraft.first.request.timeout.ms": "1000"})
async def test_grace_time_of_a_request(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    assert 11 <= await closes_after_s(cluster, HELLO[:-1]) < 14
    assert metric(cluster, "number-of-cut-connections") == 1


@on_cluster(voters=1, settings={"kraft.first.request.timeout.ms": "9000"})
async def test_time_for_the_first_request(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    assert 9 <= await closes_after_s(cluster, b"") < 12
    assert metric(cluster, "number-of-cut-connections") == 1


@on_cluster(voters=1, settings={"kraft.transfer.min.bytes.per.second": "0", "connections.max.idle.ms": "1000"})
async def test_slow_requests_may_be_allowed(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
    async with stream:
        for byte in HELLO[:20]:
            await stream.send_all(bytes([byte]))
            await trio.sleep(2)
        assert metric(cluster, "number-of-cut-connections") == 0


@on_cluster(voters=1, settings={"kraft.answer.grace.ms": "7000"})
async def test_unread_answers(cluster: Cluster) -> None:
    """The network between them holds some bytes, and the rest waits at the node."""
    leader = await cluster.wait_for_leader()
    for _ in range(12):
        await leader.append([b"x" * 2**19])
    stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
    partition = FetchPartition(topic_name=TOPIC, topic_id=TOPIC_ID, partition=0, fetch_offset=0, max_bytes=2**24)
    fetch = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, partitions=(partition,))
    async with stream:
        await stream.send_all(encode_request(FETCH, 17, 1, "test", fetch))
        began_s = trio.current_time()
        await cluster.wait_until(lambda: metric(cluster, "number-of-cut-connections") == 1, within_s=30)
        assert 6 <= trio.current_time() - began_s <= 11


@on_cluster(voters=1, settings={"kraft.connection.max.in.flight.requests": "3"})
async def test_requests_in_flight(cluster: Cluster) -> None:
    """The fourth Fetch is not read before one of the first three has been answered."""
    await cluster.wait_for_leader()
    stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
    add = AddRaftVoterRequest(cluster.cluster_id, 5_000, 9, UUID(int=9), NOWHERE)
    async with stream:
        for number in range(4):
            await stream.send_all(encode_request(ADD_RAFT_VOTER, 1, number, "test", add))
            await trio.sleep(0.5)
            assert metric(cluster, "number-of-paused-connections") == (number >= 2)


@pytest.mark.parametrize("key", ["kraft.connection.max.request.bytes", "socket.request.max.bytes"])
def test_size_of_a_request(key: str) -> None:
    @on_cluster(voters=1, settings={key: str(2 * 2**20)})
    async def story(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        size = 2 * 2**20 + 1
        stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
        async with stream:
            await stream.send_all(HELLO + size.to_bytes(4, "big"))
            with trio.fail_after(3):
                while await stream.receive_some():
                    pass
        assert metric(cluster, "number-of-malformed-requests") == 1

    story()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"max_connection_bytes": 2**20}, "kraft.connection.max.request.bytes=1048576: at least 1114124"),
        ({"max_connection_bytes": 2**26}, "leaves 50331648 to clients"),
    ],
)
def test_request_memory_of_one_connection_fits_the_rest(changed: dict[str, int], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        NodeConfig(node_id=1, listeners="CONTROLLER://h:1", metadata_log_dir="d", **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["kraft.waiting.fetches.max", "kraft.waiting.fetches.max.per.connection"])
def test_fetches_that_wait(key: str) -> None:
    @on_cluster(voters=1, settings={key: "0"})
    async def story(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        async with RawClient.connected(cluster, 1) as client:
            began_s = trio.current_time()
            await client.fetch(leader.log.end_offset, max_wait_ms=400, min_bytes=1)
            assert trio.current_time() - began_s < 0.4
        assert metric(cluster, "number-of-refused-waits") == 1

    story()


@on_cluster(voters=1, observers=1, settings={"kraft.waiting.observers.max": "0"})
async def test_observers_that_wait(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await trio.sleep(5)
    assert float(metric(cluster, "number-of-refused-waits")) > 0
    await cluster.wait_until_alike()


@on_cluster(voters=1, settings={"kraft.producer.ids.max": "2"})
async def test_producer_ids(cluster: Cluster) -> None:
    """Over a restart too."""
    await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        for producer_id in (5, 6, 7):
            await client.produce(batch_of(b"value", producer_id=producer_id, base_sequence=0))
    assert metric(cluster, "number-of-producer-ids") == 2
    cluster.machines[1].kill()
    await cluster.machines[1].start()
    leader = await cluster.wait_for_leader()
    assert [producer.producer_id for producer in leader.log.producers] == [6, 7]


@pytest.mark.parametrize(
    ("settings", "compression", "error"),
    [
        ({"message.max.bytes": "1000"}, Compression.NONE, ErrorCode.message_too_large),
        ({"message.max.bytes": "1000"}, Compression.GZIP, ErrorCode.message_too_large),
        ({"kraft.decompressed.max.bytes": "1000"}, Compression.GZIP, ErrorCode.invalid_record),
    ],
)
def test_size_of_batches(settings: dict[str, str], compression: Compression, error: ErrorCode) -> None:
    @on_cluster(voters=1, settings=settings)
    async def story(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        batch = encode_batch([NewRecord(value=b"x" * 2000)], timestamp_ms=0, compression=compression)
        async with RawClient.connected(cluster, 1) as client:
            assert (await client.produce(batch)).error is error
        assert metric(cluster, "number-of-refused-batches") == 1

    story()


# Voter changes


def test_rate_of_voter_changes() -> None:
    rate = VoterChangeRate(per_minute=60, burst=4, now_s=100)
    assert [rate.take(100, is_about_known=False) for _ in range(3)] == [True, True, False]
    assert [rate.take(100, is_about_known=True) for _ in range(3)] == [True, True, False]
    assert [rate.take(now_s, is_about_known=True) for now_s in (100.5, 101, 101.5, 102)] == [False, True, False, True]
    assert not rate.take(104, is_about_known=False), "half is reserved"
    assert rate.take(105, is_about_known=False)
    assert [rate.take(10**6, is_about_known=True) for _ in range(5)] == [True] * 4 + [False], "never above the burst"


SLOWLY = {"kraft.voter.changes.per.minute": "60", "kraft.voter.changes.burst": "8"}


@on_cluster(voters=1, observers=1, started=(1,), settings={**JOIN, **SLOWLY})
async def test_new_controller_joins_during_a_flood_of_other_changes(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    outcomes: set[ErrorCode] = set()

    async def flood() -> None:
        async with RawClient.connected(cluster, 1) as client:
            for number in range(10**6):
                request = AddRaftVoterRequest(cluster.cluster_id, 10, 100 + number, UUID(int=100 + number), NOWHERE)
                outcomes.add((await client.ask(ADD_RAFT_VOTER, request)).error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(flood)
        await trio.sleep(10)
        await cluster.machines[2].start()
        await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2), within_s=30)
        nursery.cancel_scope.cancel()
    assert outcomes == {ErrorCode.request_timed_out, ErrorCode.throttling_quota_exceeded}
    assert float(metric(cluster, "number-of-throttled-voter-changes")) > 100
    assert leader.view.epoch == 1


@on_cluster(voters=2, settings=SLOWLY)
async def test_voters_may_repeat_what_is_known_of_them(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(5)
    [other] = [voter for voter in leader.log.voters.voters if voter.key != leader.key]

    def update(port: int) -> UpdateRaftVoterRequest:
        endpoint = other.endpoints.get(LISTENER)
        assert endpoint is not None
        listeners = Endpoints({LISTENER: Endpoint(endpoint.host, port or endpoint.port)})
        return UpdateRaftVoterRequest(
            cluster.cluster_id,
            leader.view.epoch,
            other.id,
            other.key.directory_id,
            listeners,
            other.kraft_versions,
        )

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(RawClient.connected(cluster, leader.key.id))
        for _ in range(20):
            assert (await client.ask(UPDATE_RAFT_VOTER, update(0))).error is ErrorCode.none
        assert metric(cluster, "number-of-throttled-voter-changes", leader.key.id) == 0
        clients = [await stack.enter_async_context(RawClient.connected(cluster, leader.key.id)) for _ in range(12)]
        errors = []

        async def move(client: RawClient, port: int) -> None:
            errors.append((await client.ask(UPDATE_RAFT_VOTER, update(port))).error)

        async with trio.open_nursery() as nursery:
            for port, one in enumerate(clients, start=1):
                nursery.start_soon(move, one, port)
    assert set(errors) == {ErrorCode.request_timed_out}
    assert float(metric(cluster, "number-of-throttled-voter-changes", leader.key.id)) >= 4
    assert leader.log.voters.voters.get(ReplicaKey(other.id).id) == other
