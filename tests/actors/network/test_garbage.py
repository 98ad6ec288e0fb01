"""What a request leaves behind is freed at once: no cycle keeps a message until the garbage collector runs."""

from __future__ import annotations

import gc

from kraft_trio.simulation import Cluster
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import RawClient, batch_of

REQUESTS = 100


@on_cluster()
async def test_answered_requests_leave_no_cycles(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        await client.produce(batch_of(b"a"))
        gc.collect()
        gc.disable()
        try:
            for _ in range(REQUESTS):
                await client.produce(batch_of(b"a"))
            unreachable = gc.collect()
        finally:
            gc.enable()
    # Connections that end meanwhile leave a few.
    assert unreachable < REQUESTS
