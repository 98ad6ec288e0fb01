"""A node by itself: nobody looks at what it logs, and what ends it comes out of the block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kraft_trio.environment import Environment
from kraft_trio.node import Node
from kraft_trio.running import open_node
from kraft_trio.simulation import Cluster
from kraft_trio.storage.disk.record_thread import InLoop


def lone_environment(cluster: Cluster, node_id: int) -> Environment:
    machine = cluster.machines[node_id]
    return Environment(
        network=cluster.network.seen_from(machine.host),
        disk=machine.disk,
        random=cluster.random("lone node"),
        wall_clock_ms=machine.wall_clock_ms,
        off_loop=InLoop(),
    )


@asynccontextmanager
async def lone_node(cluster: Cluster, node_id: int, **options: Any) -> AsyncIterator[Node]:
    """That node of a cluster, which must not run, until the block is left.  The options are those of `open_node`."""
    environment = lone_environment(cluster, node_id)
    async with open_node(cluster.machines[node_id].config, environment=environment, **options) as node:
        yield node
