"""Steps of snapshots.  See `crash-in`, `fail-sync`, `rot` and the strikes for their faults."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import trio

from kraft_trio.errors import KraftError
from kraft_trio.simulation.script.parts import NODES
from kraft_trio.simulation.script.steps import NotAsExpected, Step, register
from kraft_trio.simulation.script.syntax import flag, part

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster

TAKEN_WITHIN_S: Final = 30.0
"""How long a snapshot may take before nobody waits for it any more."""


@register
@attrs.frozen
class TakeSnapshot(Step):
    """Makes running nodes take a snapshot, as their applications may at any time; `beside` does not wait."""

    verb: ClassVar[str] = "take-snapshot"
    nodes: tuple[int, ...] = part(NODES)
    is_beside: bool = flag("beside")

    async def take(self, cluster: Cluster) -> None:
        if cluster.setup.state_machine is None:
            raise NotAsExpected(
                f"{self.verb}: the nodes have no state machine; expected a script that sets when snapshots are taken"
            )
        for node in self.nodes:
            if self.is_beside:
                cluster.nursery.start_soon(_take, cluster, node)
            else:
                await _take(cluster, node)


async def _take(cluster: Cluster, node_id: int) -> None:
    """As an application in that node's process; told of a failure, it has nothing to add to what the node does."""
    machine = cluster.machines[node_id]
    if machine.node is None or machine.is_paused:
        return
    with machine.in_process(), trio.move_on_after(TAKEN_WITHIN_S), suppress(KraftError):
        await machine.node.take_snapshot()
