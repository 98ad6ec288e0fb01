"""What every part of a recovery does: end faults, wait for progress, and violate if there is none."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

import trio

from kraft_trio.simulation.cluster import LOOK_EVERY_S, Cluster
from kraft_trio.simulation.deterministic import sleep
from kraft_trio.simulation.facts.history import EXECUTE, Outcome

T = TypeVar("T")

PROGRESS: Final = "once the faults have stopped, a majority makes progress"

COMMITS: Final = "while a majority of the voters reach each other, something commits"

ELECTION_TIMEOUTS: Final = 20
"""A healed majority must have a leader that has committed within this many of the longest timeouts."""

CATCH_UP_S: Final = 120.0
"""All nodes must have the same log this many virtual seconds after everything is healed."""


class Demands:
    """The means of a recovery.  Its random choices are those of the whole run's seed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.random: random.Random = cluster.random("recovery")
        self.everyone = sorted(cluster.machines)
        self.appends = 0
        """How many values the recovery itself has appended."""

    @property
    def longest_timeout_s(self) -> float:
        """The longest timeout of the machines, including the drift of their clocks."""
        configs = [machine.config for machine in self.cluster.machines.values()]
        return max(max(2 * c.election_timeout_ms, c.fetch_timeout_ms, c.request_timeout_ms) for c in configs) / 1000

    async def end_faults(self, nodes: Collection[int]) -> None:
        """Let these nodes run on working machines, and reach each other but no other node."""
        self.cluster.network.end_faults()
        others = [node for node in self.cluster.machines if node not in nodes]
        if others:
            self.cluster.partition(nodes, others, silent=self.random.random() < 0.5)
        await self.end_faults_of(nodes)

    async def end_faults_of(self, nodes: Collection[int]) -> None:
        """Let these nodes run on working machines."""
        for node in self.random.sample(sorted(nodes), len(nodes)):
            machine = self.cluster.machines[node]
            machine.end_faults()
            if machine.node is not None and machine.node.tree.disk_failure is not None:
                # It ends by itself as soon as it has handed over.
                await machine.wait_until_ended()
            # On a slow disk, a process whose disk has failed may not know yet that it is going to end.
            if (machine.is_running and machine.disk.has_failed) or machine.has_bad_disk or machine.has_moved:
                machine.kill()
                await machine.wait_until_ended()
            if machine.has_bad_disk:
                machine.replace_disk()
            if not machine.is_running:
                await machine.start()

    async def met(self, progress: Callable[[], Awaitable[T]], within_s: float, nodes: Collection[int]) -> T:
        """The result of `progress`, if it comes in time; otherwise a violation."""
        began_at_s = self.cluster.now_s
        with trio.move_on_after(within_s):
            return await progress()
        running = ", ".join(_described(self.cluster, node) for node in nodes)
        asked = f"nodes {', '.join(map(str, nodes))} have been without faults since {began_at_s:.3f} s"
        await self.violated(PROGRESS, (asked, f"{within_s:.1f} s later: {running}"), nodes)
        raise AssertionError("unreachable: a violation ends the run")

    async def become(self, is_so: Callable[[], bool], within_s: float) -> None:
        """Wait until it is so; a violation if it is not in time."""
        await self.met(lambda: self.cluster.wait_until(is_so, within_s=math.inf), within_s, self.everyone)

    async def be_alike(self) -> None:
        """Wait until all nodes run and have the same log; a violation if they have not in time."""

        async def alike() -> None:
            cluster = self.cluster
            await cluster.wait_until(lambda: len(cluster.nodes) == len(cluster.machines), within_s=math.inf)
            await cluster.wait_until_alike(within_s=math.inf)

        await self.met(alike, CATCH_UP_S, self.everyone)

    async def violated(self, title: str, facts: tuple[str, str], nodes: Collection[int]) -> None:
        """End the run."""
        self.cluster.violate(title, facts, sorted(nodes))
        await trio.sleep_forever()


async def demand_commit(cluster: Cluster, within_s: float) -> None:
    """Wait until an append that a client begins after this call is acknowledged.  A violation if none is in time."""
    operations = cluster.history.operations
    begins, began_at_s = len(operations), cluster.now_s
    while not any(o.kind in ("append", EXECUTE) and o.outcome is Outcome.OK for o in operations[begins:]):
        if cluster.now_s >= began_at_s + within_s:
            demands = Demands(cluster)
            asked = f"clients have written since {began_at_s:.3f} s, and a majority of the voters reach each other"
            running = "; ".join(_described(cluster, node) for node in demands.everyone)
            await demands.violated(COMMITS, (asked, f"{within_s:.1f} s later: {running}"), demands.everyone)
        await sleep(LOOK_EVERY_S)


def _described(cluster: Cluster, node_id: int) -> str:
    machine = cluster.machines[node_id]
    if machine.node is None:
        return f"{node_id} does not run ({machine.failure or 'no failure'})"
    log, view = machine.node.log, machine.node.view
    return (
        f"{node_id} is {type(view.role).__name__} in epoch {view.epoch}, leader {view.leader_id}, "
        f"log end {log.end}, synced to {log.synced_end_offset}, high watermark {log.high_watermark}"
    )
