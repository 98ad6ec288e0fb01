"""A leader with a slow clock is cut off and keeps reading, while one with a fast clock takes over at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from kraft_trio.node import Node
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.clients.log_access import EmbeddedAccess
from kraft_trio.simulation.facts.history import BARRIER_READ
from kraft_trio.simulation.script.catalog import parse_step
from tests.simulation.mutants.runs import campaign
from tests.support.timing import set_timing

KEY = "kraft.read.lease.max.clock.drift.ppm"
WAIT_S = 0.5
"""How long a new leader commits nothing: half of the default election timeout."""


def lease_setup(limit: float) -> Setup:
    """Three voters that allow their clocks that much drift."""
    return Setup(settings={KEY: str(round(limit * 1e6))})


async def leading_with_a_lease(cluster: Cluster) -> Node:
    """Node 1 leads, and holds a lease that has just begun."""
    await parse_step("elect 1").take(cluster)
    leader = cluster.nodes[1]
    await leader.append([b"a"])
    await cluster.wait_until_alike()
    set_timing(cluster, latency_s=0.001)
    for _ in range(4):
        await trio.sleep(2 * WAIT_S)
        await leader.read_barrier()
    return leader


def leader_cut_off(drift: float) -> Callable[[Cluster], Awaitable[None]]:
    """Clocks run that much too slow on the old leader, and too fast on the new one."""

    async def main(cluster: Cluster) -> None:
        cluster.machines[1].clock_drift = -drift
        cluster.machines[2].clock_drift = drift
        for machine in cluster.machines.values():
            await machine.stop()
        for machine in cluster.machines.values():
            await machine.start()
        old = await leading_with_a_lease(cluster)
        set_timing(cluster)
        cluster.partition([1], [2, 3], silent=True)
        await campaign(cluster, 2)
        cluster.nursery.start_soon(parse_step('append "b" via 2').take, cluster)
        while await _has_read(cluster, old):  # noqa: ASYNC110  reads as often as a client can
            await trio.sleep(0.001)

    return main


async def _has_read(cluster: Cluster, node: Node) -> bool:
    """Read under the lease.  Returns False if the lease is over."""
    history = cluster.history
    read = history.invoke(BARRIER_READ, client="reader", via=node.key.id, from_offset=0, is_linearizable=True)
    with trio.move_on_after(0.0001):
        given = await EmbeddedAccess(node).read_behind_barrier(0, 1.0)
        history.succeed(read, offsets=given.offsets, values=given.values, end_offset=given.end_offset)
        return True
    history.lose(read, "the lease is over")
    return False
