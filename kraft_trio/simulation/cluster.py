"""A whole cluster in one process, under virtual time: real nodes, simulated network and disks, one seed for all.

`simulate` runs a function against a Cluster and checks the invariants at every step.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader
from kraft_trio.simulation.clients.administrator import Administrator
from kraft_trio.simulation.clients.workload import Workload
from kraft_trio.simulation.deterministic import run_deterministically, sleep
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.observing import captured_logs
from kraft_trio.simulation.setup import Setup
from kraft_trio.simulation.strict_reader import SOFTWARE
from kraft_trio.simulation.survivability import Survivability
from kraft_trio.simulation.world import World

T = TypeVar("T")

LOOK_EVERY_S: Final = 0.01
"""How often `wait_until` evaluates its condition, in virtual time."""


class Cluster(World):
    """The world with its machines, by node id, and the clients that change the quorum.

    `simulate` makes one and starts every machine.
    """

    def __init__(self, setup: Setup) -> None:
        """Use `simulate`."""
        super().__init__(setup)
        self.survivability = Survivability(self)
        self.administrator = Administrator(self, self.survivability)
        self.workload: Workload | None = None
        """The clients of the run, once a step has started some."""
        self.resignations: set[tuple[int, int]] = set()
        """Id and epoch of the leaders that were asked to resign."""
        self.machines = {node_id: Machine(self, node_id) for node_id in self.node_ids}
        for node_id in self.setup.kafka_replicas:
            self.network.name_software(self.machines[node_id].host, *SOFTWARE)
        for node_id, machine in self.machines.items():
            machine.format(machine.new_key(), with_voters=node_id in self.voter_ids)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Cluster]:
        """Run the machines until the block ends or an invariant is violated.  Raises InvariantViolated."""
        with captured_logs(self):
            async with trio.open_nursery() as self._nursery:
                for node_id in sorted(self.machines if self.setup.started is None else self.setup.started):
                    await self.machines[node_id].start()
                yield self
                self.demand_that_losses_are_told()
                self.end_run()
        if self.violation is not None:
            raise self.report(self.violation) from None

    def end_run(self) -> None:
        """Cancel everything, paused processes included: a paused task would never hear of its cancellation."""
        for machine in self.machines.values():
            machine.resume()
        super().end_run()

    # Looking

    def leader(self) -> Node | None:
        """The running, unpaused node that leads the highest epoch; None if none of them leads."""
        leaders = [
            node
            for id, node in self.nodes.items()
            if isinstance(node.view.role, Leader) and not self.machines[id].is_paused
        ]
        return max(leaders, key=lambda node: node.view.epoch, default=None)

    def others(self, node: Node) -> list[Node]:
        """The initial voters that run, except this one, by id."""
        return [other for id, other in self.nodes.items() if other is not node and id in self.voter_ids]

    # Waiting, in virtual time

    async def wait_until(self, condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Wait for the condition to hold.  Raises TooSlowError after `within_s`."""
        with trio.fail_after(within_s):
            while not condition():
                await sleep(LOOK_EVERY_S)

    async def wait_for_leader(self, *, other_than: Node | None = None, within_s: float = 60.0) -> Node:
        """Wait for a leader, other than the given process, that has committed in its epoch.

        Only the leader of the highest epoch counts.  Raises TooSlowError after `within_s`.
        """

        def leads() -> bool:
            leader = self.leader()
            return (
                leader is not None and leader is not other_than and self.replica_of(leader.key).has_committed_in_epoch
            )

        await self.wait_until(leads, within_s=within_s)
        leader = self.leader()
        assert leader is not None
        return leader

    async def wait_until_alike(self, *node_ids: int, within_s: float = 60.0) -> None:
        """Wait until the logs of these nodes, by default of all that run, are equal, durable and wholly committed."""

        def alike() -> bool:
            nodes = self.nodes
            logs = [node.log for id, node in nodes.items() if not node_ids or id in node_ids]
            ends = {(log.end, log.synced_end_offset, log.high_watermark) for log in logs}
            return len(ends) == 1 and all(log.high_watermark == log.end_offset for log in logs)

        await self.wait_until(alike, within_s=within_s)

    # The network's faults, by node id

    def partition(self, *groups: Iterable[int], silent: bool = False) -> None:
        """Let nodes reach only nodes of their own group.  A `silent` partition stalls connections and resets none."""
        self.network.partition(*([f"node-{id}" for id in group] for group in groups), silent=silent)

    def heal(self) -> None:
        """End every partition and every fault of a link."""
        self.network.heal()


def simulate(main: Callable[[Cluster], Awaitable[T]], setup: Setup | None = None, **fields: object) -> T:
    """Run `main` in virtual time against a cluster of whole nodes that have been started, and return its result.

    `fields` are those of Setup, if no Setup is given.  The same seed gives the same run.  Raises InvariantViolated if
    an invariant does not hold, and otherwise what `main` raises.
    """
    chosen = setup if setup is not None else Setup(**fields)  # type: ignore[arg-type]

    async def run() -> T:
        failure: BaseException | None = None
        async with Cluster(chosen).running() as cluster:
            try:
                result = await main(cluster)
            except trio.Cancelled:
                raise
            except BaseException as error:
                # Raised after the cluster has ended: without a group around it, and not if a violation caused it.
                failure = error
        if failure is not None:
            raise failure
        return result

    return run_deterministically(run, seed=chosen.seed)
