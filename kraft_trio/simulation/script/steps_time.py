"""Steps of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import trio

from kraft_trio.simulation.deterministic import sleep
from kraft_trio.simulation.script.parts import DRIFT, DURATION, NODE, choice
from kraft_trio.simulation.script.steps import NotAsExpected, Step, part, register

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster

QUIET_TIMEOUTS: Final = 3
"""In a settled cluster, nothing may happen for this many of the longest timeouts."""

SETTLED_WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.02


@register
@attrs.frozen
class Wait(Step):
    """Lets virtual time pass."""

    verb: ClassVar[str] = "wait"
    duration_us: int = part(DURATION)

    async def take(self, cluster: Cluster) -> None:
        await trio.sleep(self.duration_us / 1e6)


@register
@attrs.frozen
class Settle(Step):
    """Waits until nothing has changed for a while.

    This must happen within 5 minutes.  Nodes without a leader may keep asking for pre-votes, which changes nothing.
    """

    verb: ClassVar[str] = "settle"

    async def take(self, cluster: Cluster) -> None:
        quiet_s = QUIET_TIMEOUTS * _longest_timeout_s(cluster)
        ends_at_s = cluster.now_s + SETTLED_WITHIN_S
        before, since_s = _facts(cluster), cluster.now_s
        while cluster.now_s - since_s < quiet_s:
            if cluster.now_s > ends_at_s:
                raise NotAsExpected(f"settle: expected no change any more within {SETTLED_WITHIN_S:g} s")
            await sleep(LOOK_EVERY_S)
            if (now := _facts(cluster)) != before:
                before, since_s = now, cluster.now_s


def _longest_timeout_s(cluster: Cluster) -> float:
    configs = [machine.config for machine in cluster.machines.values()]
    return max(max(2 * config.election_timeout_ms, config.fetch_timeout_ms) for config in configs) / 1000


def _facts(cluster: Cluster) -> list[object]:
    """The facts that must not change for a while in a settled cluster."""
    facts: list[object] = [operation.outcome for operation in cluster.history.operations]
    for machine in cluster.machines.values():
        replica = machine.replica
        facts += [machine.is_running, machine.is_paused, replica]
        if replica is not None and replica.view is not None:
            # Not the leader that it knows: a node that cannot reach its leader doubts it again and again.
            facts += [replica.view.epoch, replica.is_leader, replica.log_end, replica.synced_end]
            facts += [replica.high_watermark, replica.applied_end]
    return facts


@register
@attrs.frozen
class Drift(Step):
    """Makes a machine's clock fast (+) or slow (-) from its next start on."""

    verb: ClassVar[str] = "drift"
    node: int = part(NODE)
    drift_ppm: int = part(DRIFT)

    async def take(self, cluster: Cluster) -> None:
        cluster.machines[self.node].clock_drift = self.drift_ppm / 1e6


@register
@attrs.frozen
class JumpClock(Step):
    """Sets a machine's wall clock, which only stamps records, forward or back."""

    verb: ClassVar[str] = "jump-clock"
    node: int = part(NODE)
    direction: str = part(choice("forward", "back"))
    duration_us: int = part(DURATION)

    async def take(self, cluster: Cluster) -> None:
        sign = 1 if self.direction == "forward" else -1
        cluster.machines[self.node].wall_clock_offset_ms += sign * self.duration_us // 1000
