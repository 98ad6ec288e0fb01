"""Asks several nodes the same question concurrently; each one answers for itself or fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.client.replica_snapshots import ReplicaSnapshots
from kraft_trio.errors import KraftError, NetworkError, RefusedError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint

Told = dict[Endpoint, ReplicaSnapshots | KraftError]
"""A node's answer, or the reason why there is no answer."""


async def ask_each(nodes: Sequence[Endpoint], ask: Callable[[Endpoint], Awaitable[ReplicaSnapshots]]) -> Told:
    """Ask each node once.  The answers come back in the order of the nodes."""
    told: Told = {node: KraftError("not asked") for node in nodes}

    async def ask_one(node: Endpoint) -> None:
        try:
            told[node] = await ask(node)
        except (NetworkError, UnsupportedVersionError, RefusedError) as error:
            told[node] = error

    async with trio.open_nursery() as nursery:
        for node in told:
            nursery.start_soon(ask_one, node)
    return told


def endpoints_of_voters(quorum: QuorumDescription) -> list[Endpoint]:
    """The first listener of each voter whose listeners the leader knows."""
    listeners = [quorum.endpoints_of(state.key) for state in quorum.voters]
    return [next(iter(found))[1] for found in listeners if found]
