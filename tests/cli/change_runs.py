"""Changes of the voters of a simulated cluster, asked for as the commands do."""

from __future__ import annotations

import trio

from kraft_trio.cli.quorum.voter_change_run import ChangeRun
from kraft_trio.client.admin import AdminClient
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation import Cluster
from tests.support.new_disk import replace_disk_of_a_follower


def run_on(cluster: Cluster, *, timeout_ms: int = 30_000, force: bool = False) -> ChangeRun:
    """Changes asked for from a host of their own, which knows the initial voters."""
    client = AdminClient(
        [cluster.endpoint_of(id) for id in cluster.voter_ids], network=cluster.network.seen_from("client-admin")
    )
    return ChangeRun(client, 5000, timeout_ms, cluster.config_of(1).fetch_timeout_ms, force)


async def with_new_disk(cluster: Cluster) -> tuple[ReplicaKey, ReplicaKey]:
    """A follower's disk is replaced, and its new incarnation has caught up; the old key and the new one."""
    leader = await cluster.wait_for_leader()
    keys = await replace_disk_of_a_follower(cluster, leader)
    await cluster.wait_until_alike()
    await trio.sleep(5)
    return keys
