"""Whole nodes in one process: they elect, replicate, fail over."""

from __future__ import annotations

from kraft_trio.simulation import Cluster
from tests.support.on_cluster import on_cluster


@on_cluster()
async def test_three_nodes_elect_and_commit(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    offsets = await leader.append([b"a", b"b"])
    seen = []
    for node in cluster.nodes.values():
        async for record in node.committed(0):
            seen.append((record.offset, record.value))
            if record.offset == offsets[-1]:
                break
    assert seen == [(offsets[0], b"a"), (offsets[1], b"b")] * 3
