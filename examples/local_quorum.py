"""A quorum of three nodes in one process, for the examples.  docs/start/embedding.md runs each in its own process."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from kraft_trio import Node, NodeConfig, Serde, StateMachine, ensure_formatted, open_node, random_uuid

T = TypeVar("T")
R = TypeVar("R")


@asynccontextmanager
async def local_quorum(serde: Serde[T], machines: Sequence[StateMachine[T, R]]) -> AsyncIterator[list[Node[T, R]]]:
    """Run a node for each state machine.  In the block, all of them are voters."""
    addresses = dict(enumerate(free_addresses(len(machines)), start=1))
    cluster_id = random_uuid()
    with tempfile.TemporaryDirectory() as directory:
        async with AsyncExitStack() as stack:
            configs = [
                NodeConfig(
                    node_id=node_id,
                    listeners=f"CONTROLLER://{address}",
                    quorum_bootstrap_servers=",".join(addresses.values()),
                    metadata_log_dir=f"{directory}/node-{node_id}",
                )
                for node_id, address in addresses.items()
            ]
            for config in configs:
                await ensure_formatted(config, cluster_id, addresses)
            yield [
                await stack.enter_async_context(open_node(config, serde=serde, state_machine=machine))
                for config, machine in zip(configs, machines, strict=True)
            ]


def free_addresses(count: int) -> list[str]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    return addresses
