"""Steps of time: waiting, and clocks that do not tell it right."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs
import trio

from kraft_trio.simulation.step_parts import DRIFT, DURATION, NODE, choice
from kraft_trio.simulation.step_syntax import part
from kraft_trio.simulation.steps import Step, register

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster


@register
@attrs.frozen
class Wait(Step):
    """Lets virtual time go on."""

    verb: ClassVar[str] = "wait"
    duration_us: int = part(DURATION)

    async def take(self, cluster: Cluster) -> None:
        await trio.sleep(self.duration_us / 1e6)


@register
@attrs.frozen
class Drift(Step):
    """Lets a machine's clock run fast (+) or slow (-) from now on; +0% is a true one."""

    verb: ClassVar[str] = "drift"
    node: int = part(NODE)
    drift_ppm: int = part(DRIFT)

    async def take(self, cluster: Cluster) -> None:
        cluster.machines[self.node].clock_drift = self.drift_ppm / 1e6


@register
@attrs.frozen
class JumpClock(Step):
    """Sets a machine's wall clock forward or back; it stamps records, and nothing else may depend on it."""

    verb: ClassVar[str] = "jump-clock"
    node: int = part(NODE)
    direction: str = part(choice("forward", "back"))
    duration_us: int = part(DURATION)

    async def take(self, cluster: Cluster) -> None:
        sign = 1 if self.direction == "forward" else -1
        cluster.machines[self.node].wall_clock_offset_ms += sign * self.duration_us // 1000
