"""What a reader of Spark asks a simulated quorum."""

from __future__ import annotations

import attrs
import pytest

from kraft_trio.errors import ConfigError
from kraft_trio.simulation import Cluster
from kraft_trio.spark.live.quorum import QuorumAddress, quorum_leader
from kraft_trio.spark.writing.appending import PartitionAppender
from kraft_trio.spark.writing.batches import RowBatch
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.storage.batches.batch import NewRecord
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
