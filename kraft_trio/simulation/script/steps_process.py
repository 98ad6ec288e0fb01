"""Steps of processes and machines: how they end, how they come back, and how they stand still.

Each names any number of nodes; those it does not apply to (a dead one is killed, a running one started) it leaves
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from kraft_trio.simulation.script.parts import NODES, choice
from kraft_trio.simulation.script.steps import Step, register
from kraft_trio.simulation.script.syntax import part

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.disk.inode import Loss


@register
@attrs.frozen
class Crash(Step):
    """Takes the machines' power: all unsynced writes are lost, or some (the last one torn), or any, out of order."""

    verb: ClassVar[str] = "crash"
    nodes: tuple[int, ...] = part(NODES)
    lose: Loss = part(choice("all", "some", "reordered"), default="all")

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            cluster.machines[node].crash(self.lose)
        for node in self.nodes:
            await cluster.machines[node].wait_until_ended()


@register
@attrs.frozen
class Kill(Step):
    """Ends the processes as kill -9 does: they say nothing to anyone, and nothing they have written is lost."""

    verb: ClassVar[str] = "kill"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            cluster.machines[node].kill()
        for node in self.nodes:
            await cluster.machines[node].wait_until_ended()


@register
@attrs.frozen
class Stop(Step):
    """Ends the processes as SIGTERM does: a leader resigns and tells the voters, then it leaves."""

    verb: ClassVar[str] = "stop"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            if cluster.machines[node].is_running:
                await cluster.machines[node].stop()


@register
@attrs.frozen
class Start(Step):
    """Starts the processes that do not run, on the disks they have."""

    verb: ClassVar[str] = "start"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            await cluster.machines[node].start()


@register
@attrs.frozen
class Restart(Step):
    """Kills the processes that run, and starts all of them."""

    verb: ClassVar[str] = "restart"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        await Kill(self.nodes).take(cluster)
        await Start(self.nodes).take(cluster)


@register
@attrs.frozen
class Pause(Step):
    """Stops the processes where they are, as SIGSTOP or a long garbage collection does; what is sent to them waits."""

    verb: ClassVar[str] = "pause"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            cluster.machines[node].pause()


@register
@attrs.frozen
class Resume(Step):
    """Lets paused processes go on from where they were."""

    verb: ClassVar[str] = "resume"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            cluster.machines[node].resume()
