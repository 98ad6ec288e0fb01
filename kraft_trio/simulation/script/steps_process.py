"""Steps of processes and machines.

Each step names any number of nodes, and skips those it does not apply to, such as dead nodes for `kill`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from kraft_trio.simulation.script.parts import NODES, choice
from kraft_trio.simulation.script.steps import Step, part, register

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.disk.inode import Loss


@register
@attrs.frozen
class Crash(Step):
    """Cuts the power and loses unsynced writes: all, some (the last one torn), or out of order."""

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
    """Ends the processes like kill -9."""

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
    """Stops the processes like SIGTERM."""

    verb: ClassVar[str] = "stop"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            if cluster.machines[node].is_running:
                await cluster.machines[node].stop()


@register
@attrs.frozen
class Start(Step):
    """Starts the processes that are not running."""

    verb: ClassVar[str] = "start"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            await cluster.machines[node].start()


@register
@attrs.frozen
class Restart(Step):
    """Kills the processes that run, then starts all of them."""

    verb: ClassVar[str] = "restart"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        await Kill(self.nodes).take(cluster)
        await Start(self.nodes).take(cluster)


@register
@attrs.frozen
class Pause(Step):
    """Freezes the processes like SIGSTOP; messages to them wait."""

    verb: ClassVar[str] = "pause"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            cluster.machines[node].pause()


@register
@attrs.frozen
class Resume(Step):
    """Resumes paused processes."""

    verb: ClassVar[str] = "resume"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        for node in self.nodes:
            cluster.machines[node].resume()
