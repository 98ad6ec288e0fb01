"""A node that was formatted for another cluster says which two cluster ids differ."""

from __future__ import annotations

from uuid import UUID

import attrs
import structlog.testing
import trio

from kraft_trio.environment import Environment
from kraft_trio.protocol.types import Endpoint
from kraft_trio.running import open_node
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.directory import format_directory
from tests.support.on_cluster import on_cluster

STRAY = "stray"
ITS_CLUSTER_ID = "ILZ5MPTeRWakmJu99uBJCA"


@on_cluster()
async def test_a_refusal_names_both_cluster_ids(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    [listener] = leader.config.listeners
    listeners = (attrs.evolve(listener, endpoint=Endpoint(STRAY, listener.endpoint.port)),)
    config = attrs.evolve(leader.config, node_id=9, listeners=listeners, advertised_listeners=())
    disk = SimulatedDisk(cluster.random(STRAY))
    format_directory(
        disk,
        config.metadata_log_dir,
        cluster_id=ITS_CLUSTER_ID,
        node_id=9,
        directory_id=UUID(int=12345, version=4),
        topic_name=config.topic_name,
        voters=None,
        kraft_version=1,
        timestamp_ms=0,
    )
    network, source = cluster.network.seen_from(STRAY), cluster.random(STRAY)
    with structlog.testing.capture_logs() as events:
        async with open_node(config, environment=Environment(network=network, disk=disk, random=source)):
            await trio.sleep(10)
    refusals = [event for event in events if event["event"] == "refused by the quorum"]
    assert {refusal["endpoint"] for refusal in refusals} == set(map(str, map(cluster.endpoint_of, cluster.voter_ids)))
    assert len(refusals) == len(cluster.voter_ids)
    for refusal in refusals:
        assert refusal["reason"] == "inconsistent_cluster_id"
        assert (refusal["cluster_id"], refusal["its_cluster_id"]) == (ITS_CLUSTER_ID, cluster.cluster_id)
