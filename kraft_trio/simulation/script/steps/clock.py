"""Steps of time."""

from __future__ import annotations

from typing import Annotated, Final

import trio

from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.deterministic import sleep
from kraft_trio.simulation.script.parts import Drift, Duration, Node, choice
from kraft_trio.simulation.script.step import NotAsExpected, step

QUIET_TIMEOUTS: Final = 3
"""In a settled cluster, nothing may happen for this many of the longest timeouts."""

SETTLED_WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.02


@step
async def wait(_cluster: Cluster, duration_us: Duration) -> None:
    """Lets virtual time pass."""
    await trio.sleep(duration_us / 1e6)


@step
async def settle(cluster: Cluster) -> None:
    """Waits until nothing has changed for a while.

    This must happen within 5 minutes.  Nodes without a leader may keep asking for pre-votes, which changes nothing.
    """
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


@step
async def drift(cluster: Cluster, node: Node, drift_ppm: Drift) -> None:
    """Makes a machine's clock fast (+) or slow (-) from its next start on."""
    cluster.machines[node].clock_drift = drift_ppm / 1e6


@step
async def jump_clock(
    cluster: Cluster, node: Node, direction: Annotated[str, choice("forward", "back")], duration_us: Duration
) -> None:
    """Sets a machine's wall clock, which only stamps records, forward or back."""
    sign = 1 if direction == "forward" else -1
    cluster.machines[node].wall_clock_offset_ms += sign * duration_us // 1000
