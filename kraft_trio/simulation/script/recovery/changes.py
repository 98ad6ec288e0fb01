"""After everything is healed: a reassignment must end, and one more voter change must be made."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.clients.administrator import Request
from kraft_trio.simulation.facts.history import ADD_VOTER, REMOVE_VOTER, Outcome
from kraft_trio.simulation.facts.voter_sets import is_member
from kraft_trio.simulation.script.recovery.demands import Demands

CHANGES: Final = "once the faults have stopped, voter changes are made"

REASSIGNED_WITHIN_S: Final = 120.0
"""A reassignment must reach its target within this many virtual seconds."""

CHANGED_WITHIN_S: Final = 30.0
"""The leader must make a voter change within this many virtual seconds."""


async def demand_end_of_reassignment(demands: Demands) -> None:
    """Demand that a reassignment reaches its target.  Cancel one to a replica that has lost its disk."""
    cluster = demands.cluster

    def target() -> tuple[ReplicaKey, ...]:
        sets = cluster.facts.committed.voter_sets
        return sets[-1].target if sets else ()

    if all(cluster.key_of(key.id) == key for key in target()):
        await demands.become(lambda: not target(), REASSIGNED_WITHIN_S)
    else:
        await demand_made(demands, cluster.administrator.cancel_reassignment(at=None, within_s=CHANGED_WITHIN_S))
    await demands.be_alike()


async def demand_voter_change(demands: Demands) -> None:
    """Ask for one more voter change: add a controller that is no voter, or remove a voter.  Static voters are
    upgraded."""
    cluster, admin = demands.cluster, demands.cluster.administrator
    if not any(node.log.voters.kraft_version for node in cluster.nodes.values()):
        await demand_made(demands, admin.upgrade(at=None, within_s=CHANGED_WITHIN_S))
        return
    voters = cluster.survivability.committed()
    node_id = demands.random.choice(demands.everyone)
    voter = voters.get(node_id)
    if voter is None:
        if "controller" in cluster.nodes[node_id].config.process_roles:
            await demand_made(demands, admin.add_voter(node_id, at=None, within_s=CHANGED_WITHIN_S))
    elif len(voters) > 1 and cluster.survivability.can_spare(voter.key):
        await demand_made(demands, admin.remove_voter(node_id, at=None, within_s=CHANGED_WITHIN_S))


async def demand_made(demands: Demands, request: Request) -> None:
    """Wait until the change is made; a violation if it is refused or not made in time."""
    operation = request.operation
    with trio.move_on_after(2 * CHANGED_WITHIN_S):
        await request.ended.wait()
    key = operation.voter
    # A replica that joins by itself also removes the one whose disk it replaces.
    is_so_already = (
        operation.kind in (ADD_VOTER, REMOVE_VOTER)
        and key is not None
        and is_member(demands.cluster.survivability.committed(), key) == (operation.kind == ADD_VOTER)
    )
    if operation.outcome is not Outcome.OK and not is_so_already:
        asked = f"everybody has the same log, and an administrator asks: {operation.asks}"
        await demands.violated(CHANGES, (asked, str(operation)), demands.everyone)
