"""Steps that random runs have besides faults: the time of the next one, the clients, the recovery at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs
import trio

from kraft_trio.simulation.recovery import recover
from kraft_trio.simulation.step_parts import DURATION, NUMBER
from kraft_trio.simulation.step_syntax import part
from kraft_trio.simulation.steps import Step, register
from kraft_trio.simulation.workload import Workload

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster


@register
@attrs.frozen
class At(Step):
    """Waits until that much virtual time has passed since the run began; not at all where it has."""

    verb: ClassVar[str] = "at"
    keeps_time: ClassVar[bool] = True
    time_us: int = part(DURATION)

    async def take(self, cluster: Cluster) -> None:
        await trio.sleep(max(0.0, self.time_us / 1e6 - cluster.now_s))


@register
@attrs.frozen
class Clients(Step):
    """Lets that many clients write and read, over the network and embedded in nodes, until the run recovers or ends."""

    verb: ClassVar[str] = "clients"
    count: int = part(NUMBER)

    async def take(self, cluster: Cluster) -> None:
        if cluster.workload is None and self.count:
            cluster.workload = Workload(cluster, clients=self.count)
            cluster.workload.start()


@register
@attrs.frozen
class Recover(Step):
    """Ends every fault, of a majority first, and demands progress; in the end every node must have the same log."""

    verb: ClassVar[str] = "recover"

    async def take(self, cluster: Cluster) -> None:
        await recover(cluster)
