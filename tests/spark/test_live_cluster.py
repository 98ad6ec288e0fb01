"""What a reader of Spark asks a simulated quorum."""

from __future__ import annotations

import attrs
import pytest

from kraft_trio.errors import ConfigError, NetworkError
from kraft_trio.simulation import Cluster
from kraft_trio.spark.live.quorum import QuorumAddress, QuorumLeader, quorum_leader
from kraft_trio.spark.live.replica import ask_replica
from kraft_trio.spark.writing.appending import PartitionAppender
from kraft_trio.spark.writing.batches import RowBatch
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.storage.batches.batch import NewRecord
from tests.support.logs import values_of
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, TOPIC

OF = PartitionWrite(Write("the rows", 0), 0)


def address_of(cluster: Cluster) -> QuorumAddress:
    return QuorumAddress(tuple(map(cluster.endpoint_of, cluster.voter_ids)), 1000, 60_000)


@on_cluster()
async def test_a_node_is_asked_for_a_time(cluster: Cluster) -> None:
    """Times of a client's records need not rise."""
    await cluster.wait_for_leader()
    times_ms = (9_000_000_000_000, 9_000_000_000_020, 9_000_000_000_010)
    async with PartitionAppender(
        address_of(cluster), TOPIC, OF, network=cluster.network.seen_from(CLIENT), wall_clock_ms=iter(times_ms).__next__
    ) as appender:
        offsets = [
            (await appender.append(RowBatch(row, [NewRecord(b"one")], is_whole_partition=False))).base_offset
            for row in range(3)
        ]
    async with quorum_leader(address_of(cluster), cluster.network.seen_from(CLIENT)) as asked:
        assert await asked.offset_at_time(times_ms[0]) == offsets[0]
        assert await asked.offset_at_time(times_ms[2]) == offsets[1]
        assert await asked.offset_at_time(times_ms[1] + 1) is None


@on_cluster(observers=1)
async def test_replicas_give_what_the_leader_has_committed(cluster: Cluster) -> None:
    """A replica that is behind is asked again, and one that cannot be reached is passed over."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower = cluster.others(leader)[0]
    cluster.machines[follower.key.id].kill()
    cluster.partition({4}, set(cluster.nodes) - {4})
    (last,) = await leader.append([b"second"])
    replicas = (cluster.endpoint_of(follower.key.id), cluster.endpoint_of(4))
    address = attrs.evolve(address_of(cluster), replicas=replicas)
    retries: list[int] = []

    def retry() -> None:
        retries.append(len(retries))
        if len(retries) == 10:
            cluster.heal()

    network = cluster.network.seen_from(CLIENT)

    async def question(replica: QuorumLeader) -> list[bytes | None]:
        assert replica.name == f"the replica at {cluster.endpoint_of(4)}"
        fetched = await replica.fetch(last)
        if not fetched.records:
            raise NetworkError("not yet")
        return [value for _, value in values_of(fetched.records)]

    assert await ask_replica(address, question, retry, network) == [b"second"]
    assert len(retries) >= 10


@on_cluster()
async def test_the_topic_that_the_user_names_is_the_quorums(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    network = cluster.network.seen_from(CLIENT)
    address = attrs.evolve(address_of(cluster), topic_name=TOPIC)
    async with quorum_leader(address, network) as leader:
        assert leader.topic_name == TOPIC
    told = rf"^topic orders: the quorum at \S+ has only the topic {TOPIC}$"
    with pytest.raises(ConfigError, match=told):
        async with quorum_leader(attrs.evolve(address, topic_name="orders"), network):
            pass
