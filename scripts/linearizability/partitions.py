"""Faults of the network between the nodes.  Clients still reach every node.

Each returns whether it has kept anything from a node.
"""

from __future__ import annotations

from collections.abc import Collection

from scripts.linearizability.faults import Faults
from scripts.linearizability.links import Direction, Loss, between, outward


async def isolate_leader(faults: Faults) -> bool:
    """Nothing passes between the leader and the others."""
    leader, others = await _leader_and_others(faults)
    return await _without(faults, between([leader], others), deposed=leader)


async def mute_leader(faults: Faults) -> bool:
    """The leader hears the others, but they do not hear it."""
    leader, others = await _leader_and_others(faults)
    return await _without(faults, outward([leader], others), deposed=leader)


async def deafen_leader(faults: Faults) -> bool:
    """The others hear the leader, but it does not hear them."""
    leader, others = await _leader_and_others(faults)
    return await _without(faults, outward(others, [leader]), deposed=leader)


async def reset_leader(faults: Faults) -> bool:
    """All connections of the leader are reset, and new ones refused."""
    leader, others = await _leader_and_others(faults)
    return await _without(faults, between([leader], others), "reset", deposed=leader)


async def part_leader_and_follower(faults: Faults) -> bool:
    """They do not hear each other, but the others hear both."""
    leader, others = await _leader_and_others(faults)
    return await _without(faults, between([leader], [faults.random.choice(others)]))


async def halve(faults: Faults) -> bool:
    """Two nodes, perhaps with the leader, are separated from the other two."""
    nodes = list(faults.members.by_id)
    faults.random.shuffle(nodes)
    middle = len(nodes) // 2
    return await _without(faults, between(nodes[:middle], nodes[middle:]))


async def isolate_slow_leader(faults: Faults) -> bool:
    """The leader's clock is as slow as it ever is, those of the others are fast, and nothing passes between them."""
    leader, others = await _leader_and_others(faults)
    faults.clocks.slow_down(leader)
    has_parted = await _without(faults, between([leader], others), deposed=leader)
    has_drifted = faults.clocks.are_used(faults.running_ids) and faults.clocks.times_leases(leader)
    faults.clocks.change(faults.random)
    return has_parted and has_drifted


async def _leader_and_others(faults: Faults) -> tuple[int, list[int]]:
    leader = (await faults.leader()).id
    return leader, [node_id for node_id in faults.members.by_id if node_id != leader]


async def _without(
    faults: Faults, directions: Collection[Direction], loss: Loss = "silence", *, deposed: int | None = None
) -> bool:
    """Cut these links until clients have made progress, led by another node than `deposed`, if any."""
    links = faults.proxy.links
    before = links.effects.total()
    faults.proxy.cut(directions, loss)
    if deposed is not None:
        await faults.leader(besides=faults.members.by_id[deposed])
    await faults.progress()
    faults.proxy.heal(delivers=faults.random.random() < 0.5)
    return links.effects.total() > before
