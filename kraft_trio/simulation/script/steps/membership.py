"""Steps of an administrator: `at` asks only that node for the leader, and `nowait` does not wait.

A step waits a while for the answer; a change without one by then continues in parallel with the script.
"""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.simulation.clients.administrator import Request
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.script.parts import Duration, Node, Nodes
from kraft_trio.simulation.script.step import NotAsExpected, step, step_called

ANSWERED_WITHIN_S: Final = 1.0
"""How long a step waits for the answer."""

SPREAD_S: Final = 0.1
"""How long a step continues after the answer, so that other nodes have learned of the change."""

WITHIN_US: Final = 30_000_000
"""How long the leader may take for a change, unless the step says otherwise."""


@step
async def add_voter(
    cluster: Cluster, node: Node, *, at: Node | None = None, within_us: Duration = WITHIN_US, nowait: bool = False
) -> None:
    """Makes a node with its current disk a voter."""
    await _wait(cluster.administrator.add_voter(node, at=at, within_s=within_us / 1e6), nowait)


@step
async def remove_voter(
    cluster: Cluster, node: Node, *, at: Node | None = None, within_us: Duration = WITHIN_US, nowait: bool = False
) -> None:
    """Removes the voter with this id."""
    await _wait(cluster.administrator.remove_voter(node, at=at, within_s=within_us / 1e6), nowait)


@step
async def remove_leader(cluster: Cluster, *, within_us: Duration = WITHIN_US, nowait: bool = False) -> None:
    """Removes the leader of the highest epoch, if there is one."""
    leader = cluster.leader()
    if leader is not None:
        await remove_voter.does(cluster, leader.key.id, within_us=within_us, nowait=nowait)


@step
async def reassign(
    cluster: Cluster, nodes: Nodes, *, at: Node | None = None, within_us: Duration = WITHIN_US, nowait: bool = False
) -> None:
    """Makes these nodes with their current disks the voters, step by step."""
    await _wait(cluster.administrator.reassign(nodes, at=at, within_s=within_us / 1e6), nowait)


@step
async def cancel_reassignment(
    cluster: Cluster, *, at: Node | None = None, within_us: Duration = WITHIN_US, nowait: bool = False
) -> None:
    """Ends the reassignment; the voters remain."""
    await _wait(cluster.administrator.cancel_reassignment(at=at, within_s=within_us / 1e6), nowait)


@step
async def transfer(
    cluster: Cluster, node: Node, *, at: Node | None = None, within_us: Duration = WITHIN_US, nowait: bool = False
) -> None:
    """Hands the leadership over to a voter."""
    await _wait(cluster.administrator.transfer(node, at=at, within_s=within_us / 1e6), nowait)


@step_called("upgrade")
async def upgrade_kraft_version(
    cluster: Cluster, *, at: Node | None = None, within_us: Duration = WITHIN_US, nowait: bool = False
) -> None:
    """Finalizes kraft.version 1."""
    await _wait(cluster.administrator.upgrade(at=at, within_s=within_us / 1e6), nowait)


async def _wait(request: Request, nowait: bool) -> None:
    if not nowait:
        with trio.move_on_after(ANSWERED_WITHIN_S):
            await request.ended.wait()
            await trio.sleep(SPREAD_S)


@step
async def move(cluster: Cluster, node: Node) -> None:
    """Gives a node another address for its next start."""
    if cluster.setup.kraft_version == 0:
        raise NotAsExpected("move: with kraft-version 0 nobody would hear of it; expected 1")
    if cluster.survivability.permits_move_of(cluster.key_of(node)):
        cluster.move(node)


@step
async def static_voters(cluster: Cluster, voters: Nodes, *, on: Nodes | None = None) -> None:
    """Writes controller.quorum.voters into the configuration files of all nodes, or of some, for their next start."""
    if cluster.setup.kraft_version:
        raise NotAsExpected("static-voters: with kraft-version 1 the log has the voters; expected 0")
    unknown = sorted(set(voters) - set(cluster.machines))
    if unknown:
        raise NotAsExpected(f"static-voters: {unknown[0]} is no node; expected some of {sorted(cluster.machines)}")
    for node_id in cluster.machines if on is None else on:
        cluster.write_static_voters(node_id, voters)


@step
async def misadvertise(cluster: Cluster, nodes: Nodes) -> None:
    """Makes nodes announce an address where nobody listens, from their next start on."""
    cluster.misadvertise(nodes)


@step
async def advertise(cluster: Cluster, nodes: Nodes) -> None:
    """Ends `misadvertise`, from their next start on."""
    cluster.misadvertise(nodes, end=True)
