"""What a reader of Spark asks a simulated quorum."""

from __future__ import annotations

import attrs
import pytest

from kraft_trio.errors import ConfigError
from kraft_trio.simulation import Cluster
from kraft_trio.spark.live.quorum import QuorumAddress, quorum_leader
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, TOPIC


def address_of(cluster: Cluster) -> QuorumAddress:
    return QuorumAddress(tuple(map(cluster.endpoint_of, cluster.voter_ids)), 1000, 60_000)


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
