"""Steps of clients.

A step waits a while for the answer; an operation without one by then continues in parallel with the script.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import trio

from kraft_trio.errors import KraftError
from kraft_trio.simulation.clients.log_access import EmbeddedAccess, LogAccess, NetworkAccess
from kraft_trio.simulation.clients.operations import NO_EFFECT, PERHAPS
from kraft_trio.simulation.deterministic import process
from kraft_trio.simulation.facts.history import BARRIER_READ, Operation
from kraft_trio.simulation.script.parts import NODE, NODES, QUOTED
from kraft_trio.simulation.script.steps import NotAsExpected, Step, flag, part, register

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster

ANSWERED_WITHIN_S: Final = 0.5
"""How long a step waits for the answer to its operation."""

SPREAD_S: Final = 0.1
"""How long a step continues after the answer, so that other nodes have learned of the operation."""

WITHIN_S: Final = 30.0
"""How long a client over the network keeps trying."""

Attempt = Callable[[LogAccess, float], Awaitable[None]]


@register
@attrs.frozen
class Append(Step):
    """Appends a new value over the network, or `via` the process of a node."""

    verb: ClassVar[str] = "append"
    value: str = part(QUOTED)
    via: int | None = part(NODE, after="via", default=None)

    async def take(self, cluster: Cluster) -> None:
        value = self.value.encode()
        if cluster.history.append_of(value) is not None:
            raise NotAsExpected(f"{self.text}: this value was appended before; expected another")
        _demand_process(cluster, self)
        operation = cluster.history.invoke("append", client=_new_client(cluster), values=[value], via=self.via)

        async def attempt(access: LogAccess, within_s: float) -> None:
            offsets = await access.append([value], within_s)
            cluster.history.succeed(operation, offsets=offsets)

        await _perform(cluster, operation, attempt)


@register
@attrs.frozen
class Read(Step):
    """Reads the values that the leader, or the process of a node, knows to be committed."""

    verb: ClassVar[str] = "read"
    via: int | None = part(NODE, after="via", default=None)

    async def take(self, cluster: Cluster) -> None:
        _demand_process(cluster, self)
        operation = cluster.history.invoke(
            "read-committed", client=_new_client(cluster), via=self.via, from_offset=0, is_linearizable=False
        )

        async def attempt(access: LogAccess, within_s: float) -> None:
            given = await access.read_committed(0, within_s)
            cluster.history.succeed(operation, offsets=given.offsets, values=given.values, end_offset=given.end_offset)

        await _perform(cluster, operation, attempt)


@register
@attrs.frozen
class ReadBarrier(Step):
    """Waits for a node's read barrier, then reads what that node has."""

    verb: ClassVar[str] = "read-barrier"
    via: int = part(NODE, after="via")

    async def take(self, cluster: Cluster) -> None:
        _demand_process(cluster, self)
        operation = cluster.history.invoke(
            BARRIER_READ, client=_new_client(cluster), via=self.via, from_offset=0, is_linearizable=True
        )

        async def attempt(access: LogAccess, within_s: float) -> None:
            given = await access.read_behind_barrier(0, within_s)
            cluster.history.succeed(
                operation,
                offsets=given.offsets,
                values=given.values,
                end_offset=given.end_offset,
                from_offset=given.from_offset,
            )

        await _perform(cluster, operation, attempt)


def _demand_process(cluster: Cluster, step: Append | Read | ReadBarrier) -> None:
    if step.via is not None and cluster.machines[step.via].node is None:
        raise NotAsExpected(f"{step.text}: node {step.via} does not run; expected one that does")


def _new_client(cluster: Cluster) -> str:
    return f"script-{len(cluster.history.operations)}"


async def _perform(cluster: Cluster, operation: Operation, attempt: Attempt) -> None:
    ended = trio.Event()

    async def run() -> None:
        # An embedded client pauses with its process.
        process.set(operation.via)
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
        await attempt(EmbeddedAccess(node), math.inf)
        return
    async with aclosing(cluster.client(operation.client)) as client:
        await attempt(NetworkAccess(cluster, operation.client, client), WITHIN_S)


TAKEN_WITHIN_S: Final = 30.0
"""How long the step waits for a snapshot."""


@register
@attrs.frozen
class TakeSnapshot(Step):
    """Makes running nodes take a snapshot; `nowait` does not wait."""

    verb: ClassVar[str] = "take-snapshot"
    nodes: tuple[int, ...] = part(NODES)
    nowait: bool = flag("nowait")

    async def take(self, cluster: Cluster) -> None:
        if cluster.setup.state_machine is None:
            raise NotAsExpected(
                f"{self.verb}: the nodes have no state machine; expected a script that sets when snapshots are taken"
            )
        for node in self.nodes:
            if self.nowait:
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
