"""Steps that control an election."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from kraft_trio.messages import QuorumView, TimedOut, VoteRoundEnded
from kraft_trio.node import Node as RunningNode
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Unattached
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.script.parts import Node
from kraft_trio.simulation.script.step import NotAsExpected, step

ELECTED_WITHIN_S: Final = 30.0

CAMPAIGNED_WITHIN_S: Final = 1.0

RESIGNED_WITHIN_S: Final = 1.0

SPREAD_WITHIN_S: Final = 1.0
"""How long the step waits for the other nodes to learn of the leader and of what it has committed."""


@step
async def elect(cluster: Cluster, node: Node) -> None:
    """Makes a node campaign, without pre-votes, until it leads and has committed in its epoch.

    The node campaigns as it would among peers without pre-votes, so the others decide whether it wins.  It must win
    within 30 s.
    """
    machine = cluster.machines[node]
    if machine.node is None or machine.is_paused:
        raise NotAsExpected(f"elect {node}: expected a node that runs")
    with trio.move_on_after(ELECTED_WITHIN_S):
        while not await _campaign(machine.node):
            pass
        await _spread(cluster, machine.node)
        return
    view = machine.node.view
    raise NotAsExpected(
        f"elect {node}: expected it to lead and to have committed within {ELECTED_WITHIN_S:g} s; "
        f"it is {type(view.role).__name__} in epoch {view.epoch}"
    )


@step
async def campaign(cluster: Cluster, node: Node) -> None:
    """Makes a node campaign like `elect`, but once, whatever the result."""
    machine = cluster.machines[node]
    if machine.node is not None and not machine.is_paused:
        with trio.move_on_after(CAMPAIGNED_WITHIN_S):
            await _campaign(machine.node)


@step
async def resign(cluster: Cluster) -> None:
    """Has the leader of the highest epoch resign, if there is one."""
    leader = cluster.leader()
    if leader is not None:
        cluster.resignations.add((leader.key.id, leader.view.epoch))
        with trio.move_on_after(RESIGNED_WITHIN_S):
            await leader.resign()


async def _campaign(node: RunningNode) -> bool:
    """One attempt, unless the node leads already.  Returns whether it leads and has committed."""
    election = node.election
    view = node.view
    if isinstance(view.role, Unattached | Follower):
        await election.tell(TimedOut(view.stamp))
        view = await election.view.wait_for(_left(view))
    if isinstance(view.role, Prospective):
        await election.tell(VoteRoundEnded(view.stamp, won=False, skip_pre_vote=True))
        view = await election.view.wait_for(_left(view))
    if isinstance(view.role, Candidate):
        view = await election.view.wait_for(_left(view))
    while isinstance(view.role, Leader) and node.view.stamp == view.stamp:
        if (node.high_watermark or 0) > view.role.epoch_start_offset:
            return True
        await trio.sleep(0.001)
    # It was refused.  The node's peers now try themselves, so the next attempt meets other logs.
    await trio.sleep(0.1)
    return False


async def _spread(cluster: Cluster, leader: RunningNode) -> None:
    def have_heard() -> bool:
        return all(
            node.view.leader_id == leader.key.id and node.high_watermark == leader.high_watermark
            for node in cluster.nodes.values()
        )

    with suppress(trio.TooSlowError):
        await cluster.wait_until(have_heard, within_s=SPREAD_WITHIN_S)


def _left(view: QuorumView) -> Callable[[QuorumView], bool]:
    return lambda now: now.stamp != view.stamp
