"""Steps of clients.

A step waits a while for the answer; an operation without one by then continues in parallel with the script.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final

import trio

from kraft_trio.errors import KraftError
from kraft_trio.simulation.clients.log_access import EmbeddedAccess, LogAccess, NetworkAccess
from kraft_trio.simulation.clients.operations import NO_EFFECT, PERHAPS
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.deterministic import process
from kraft_trio.simulation.facts.history import BARRIER_READ, Operation
from kraft_trio.simulation.script.parts import Node, Nodes, Quoted
from kraft_trio.simulation.script.step import NotAsExpected, step

ANSWERED_WITHIN_S: Final = 0.5
"""How long a step waits for the answer to its operation."""

SPREAD_S: Final = 0.1
"""How long a step continues after the answer, so that other nodes have learned of the operation."""

WITHIN_S: Final = 30.0
"""How long a client over the network keeps trying."""

TAKEN_WITHIN_S: Final = 30.0
"""How long the step waits for a snapshot."""

Attempt = Callable[[LogAccess, float], Awaitable[dict[str, Any]]]
"""Performs an operation within that many seconds.  Returns what the history notes of its success."""


@step
async def append(cluster: Cluster, value: Quoted, *, via: Node | None = None) -> None:
    """Appends a new value over the network, or `via` the process of a node."""
    new = value.encode()
    text = append(value, via=via).text
    if cluster.history.append_of(new) is not None:
        raise NotAsExpected(f"{text}: this value was appended before; expected another")

    async def attempt(access: LogAccess, within_s: float) -> dict[str, Any]:
        return {"offsets": await access.append([new], within_s)}

    await _perform(cluster, text, attempt, "append", via, values=[new])


@step
async def read(cluster: Cluster, *, via: Node | None = None) -> None:
    """Reads the values that the leader, or the process of a node, knows to be committed."""

    async def attempt(access: LogAccess, within_s: float) -> dict[str, Any]:
        given = await access.read_committed(0, within_s)
        return {"offsets": given.offsets, "values": given.values, "end_offset": given.end_offset}

    text = read(via=via).text
    await _perform(cluster, text, attempt, "read-committed", via, from_offset=0, is_linearizable=False)


@step
async def read_barrier(cluster: Cluster, *, via: Node) -> None:
    """Waits for a node's read barrier, then reads what that node has."""

    async def attempt(access: LogAccess, within_s: float) -> dict[str, Any]:
        given = await access.read_behind_barrier(0, within_s)
        offsets = {"end_offset": given.end_offset, "from_offset": given.from_offset}
        return {"offsets": given.offsets, "values": given.values, **offsets}

    text = read_barrier(via=via).text
    await _perform(cluster, text, attempt, BARRIER_READ, via, from_offset=0, is_linearizable=True)


async def _perform(cluster: Cluster, text: str, attempt: Attempt, kind: str, via: int | None, **asked: Any) -> None:
    """Perform an operation, which the history notes, and wait a while for its end."""
    if via is not None and cluster.machines[via].node is None:
        raise NotAsExpected(f"{text}: node {via} does not run; expected one that does")
    client = f"script-{len(cluster.history.operations)}"
    operation = cluster.history.invoke(kind, client=client, via=via, **asked)
    ended = trio.Event()

    async def run() -> None:
        # An embedded client pauses with its process.
        process.set(via)
        try:
            await _attempt(cluster, operation, attempt)
        except NO_EFFECT as error:
            cluster.history.fail(operation, str(error))
        except PERHAPS as error:
            cluster.history.lose(operation, str(error) or f"no answer within {WITHIN_S:g} s")
        ended.set()

    cluster.nursery.start_soon(run)
    with trio.move_on_after(ANSWERED_WITHIN_S):
        await ended.wait()
        await trio.sleep(SPREAD_S)


async def _attempt(cluster: Cluster, operation: Operation, attempt: Attempt) -> None:
    if operation.via is not None:
        node = cluster.machines[operation.via].node
        assert node is not None, "looked at in the same step"
        cluster.history.succeed(operation, **await attempt(EmbeddedAccess(node), math.inf))
        return
    async with aclosing(cluster.client(operation.client)) as client:
        given = await attempt(NetworkAccess(cluster, operation.client, client), WITHIN_S)
        cluster.history.succeed(operation, **given)


@step
async def take_snapshot(cluster: Cluster, nodes: Nodes, *, nowait: bool = False) -> None:
    """Makes running nodes take a snapshot; `nowait` does not wait."""
    if cluster.setup.state_machine is None:
        raise NotAsExpected(
            "take-snapshot: the nodes have no state machine; expected a script that sets when snapshots are taken"
        )
    for node in nodes:
        if nowait:
            cluster.nursery.start_soon(_take, cluster, node)
        else:
            await _take(cluster, node)


async def _take(cluster: Cluster, node_id: int) -> None:
    """Take a snapshot as an application in that node's process, which leaves any failure to the node."""
    machine = cluster.machines[node_id]
    if machine.node is None or machine.is_paused:
        return
    with machine.in_process(), trio.move_on_after(TAKEN_WITHIN_S), suppress(KraftError):
        await machine.node.take_snapshot()
