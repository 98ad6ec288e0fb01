"""A leader that lasts: elected by a majority without faults, and lawfully replaced by nobody."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import trio

from kraft_trio.errors import KraftError
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Resigned
from kraft_trio.simulation.cluster import LOOK_EVERY_S, Cluster
from kraft_trio.simulation.deterministic import sleep
from kraft_trio.simulation.facts.history import EXECUTE
from kraft_trio.simulation.facts.voter_sets import is_member
from kraft_trio.simulation.script.recovery.demands import PROGRESS, Demands


async def lasting_leader(demands: Demands, majority: Collection[int]) -> Node:
    """A leader from the majority that has committed a new value, and that no other node may lawfully replace.

    A node that has won a pre-vote before, or that passes for a build without pre-votes, may campaign in a later epoch
    and win.  It may not have stored that epoch yet, on a slow disk.  So every node of the majority that may campaign
    must follow the leader.
    """
    cluster = demands.cluster
    while True:
        leader = await _lead_and_commit(demands, majority)
        while not _all_follow(cluster, majority, leader):
            await sleep(LOOK_EVERY_S)
            if cluster.leader() is not leader:
                break
        else:
            return leader


def _all_follow(cluster: Cluster, nodes: Collection[int], leader: Node) -> bool:
    running = cluster.nodes
    return all((node := running.get(id)) is not None and _needs_no_other(node, leader) for id in nodes)


def _needs_no_other(node: Node, leader: Node) -> bool:
    """Whether the node has everything that the leader committed, and so hears from it, or cannot campaign.

    To follow the leader is not enough: a fetch timeout from before may still run out.  A node on a blank disk cannot
    campaign, and may know only nodes that are cut off.
    """
    follows = (node.view.epoch, node.view.leader_id) == (leader.view.epoch, leader.key.id)
    has_all = node.log.end_offset >= (leader.high_watermark or 0)
    return (follows and has_all) or not _may_campaign(node)


def _may_campaign(node: Node) -> bool:
    """Whether it is in its newest voter set, or in the previous one and does not know that the newest is committed."""
    history = node.log.voters
    offset = history.voters_offset
    sets = [history.voters]
    if offset is not None and offset in history.uncommitted(node.log.high_watermark):
        sets.append(history.voters_at(offset - 1))
    return any(is_member(voters, node.key) for voters in sets)


async def _lead_and_commit(demands: Demands, majority: Collection[int]) -> Node:
    """A leader from the majority that has committed a new value."""
    cluster = demands.cluster
    while True:
        leader = cluster.leader()
        if leader is None or leader.key.id not in majority or not await _append(demands, leader):
            await sleep(LOOK_EVERY_S)
        elif cluster.leader() is leader:
            return leader


async def _append(demands: Demands, leader: Node) -> bool:
    """Whether the leader could commit a new value."""
    cluster = demands.cluster
    if cluster.agreement is not None:
        command = cluster.agreement.sample.random_command(demands.random)
        execute = cluster.history.invoke(EXECUTE, client="recovery", via=leader.key.id)
        execute.command = command
        with suppress(KraftError):
            await leader.append([command])
            return True
        return False
    value = b"recovery/%d" % demands.appends
    demands.appends += 1
    append = cluster.history.invoke("append", client="recovery", values=[value], via=leader.key.id)
    try:
        offsets = await leader.append([value])
    except KraftError as error:
        cluster.history.lose(append, str(error))
        return False
    cluster.history.succeed(append, offsets=offsets)
    return True


async def let_minority_act(demands: Demands, majority: list[int], leader: Node) -> list[int]:
    """Let the other nodes do something while the leader must stay: nothing, send requests in vain, or take part.

    A node that has been in a later epoch already, or that passes for a build without pre-votes, may lawfully replace
    the leader once.  If there is one, the others stay cut off.  Returns the nodes that take part now.
    """
    cluster, others = demands.cluster, [node for node in demands.cluster.machines if node not in majority]
    ways = demands.random.choice(("cut off", "unheard answers", "unheard questions", "connected"))
    if ways == "cut off" or not all(_is_no_later(cluster, node, leader.view.epoch) for node in others):
        return majority
    cluster.network.heal()
    if ways == "connected":
        await demands.end_faults_of(others)
        return demands.everyone
    for node in others:
        for member in majority:
            ends = cluster.machines[node].host, cluster.machines[member].host
            cluster.network.requests_only(*(ends if ways == "unheard answers" else reversed(ends)))
    return majority


def _is_no_later(cluster: Cluster, node: int, epoch: int) -> bool:
    machine = cluster.machines[node]
    stored = None if machine.replica is None else machine.replica.durable_election_state()
    later = stored is not None and stored.epoch > epoch
    view = None if machine.node is None else machine.node.view
    return not later and not (view is not None and view.epoch > epoch) and not cluster.network.has_caps


async def keeps_leading(demands: Demands, leader: Node, for_s: float) -> bool:
    """Whether the leader stays, as an epoch has only one.

    False if it was removed, asked to hand over or asked to resign, or if it may have handed over to the voters that it
    was reassigned to.  Otherwise it is a violation if another node leads, or the same one in another epoch.
    """
    cluster, before = demands.cluster, leader.view.stamp
    with trio.move_on_after(for_s):
        after = await leader.election.view.wait_for(lambda view: view.stamp != before)
        # A leader that resigns may hand over to a voter of an administrator's choice.
        successors = after.role.preferred_successors[:1] if isinstance(after.role, Resigned) else ()
        was_asked_for = any(cluster.administrator.may_still_transfer_to(voter.id) for voter in successors)
        if was_asked_for or (leader.key.id, before.epoch) in cluster.resignations:
            return False
        await trio.sleep_forever()
    now = cluster.leader()
    if now is not leader or now.view.stamp != before:
        may_hand_over = any(leader.key.id not in target for target in cluster.survivability.targets())
        if not is_member(cluster.survivability.committed(), leader.key) or may_hand_over:
            return False
        found = "nobody" if now is None else f"{now.key.id} in epoch {now.view.epoch}"
        kept = f"{leader.key.id} led epoch {before.epoch}, reaches a majority and nothing fails"
        await demands.violated(PROGRESS, (kept, f"{for_s:.1f} s later {found} leads"), [leader.key.id])
    return True
