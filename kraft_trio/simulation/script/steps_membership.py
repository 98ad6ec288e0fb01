"""Steps of an administrator: `at` asks only that node for the leader, and `nowait` does not wait.

A step waits a while for the answer; a change without one by then continues in parallel with the script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import trio

from kraft_trio.simulation.script.parts import DURATION, NODE, NODES
from kraft_trio.simulation.script.steps import NotAsExpected, Step, flag, part, register

if TYPE_CHECKING:
    from kraft_trio.simulation.clients.administrator import Request
    from kraft_trio.simulation.cluster import Cluster

ANSWERED_WITHIN_S: Final = 1.0
"""How long a step waits for the answer."""

SPREAD_S: Final = 0.1
"""How long a step continues after the answer, so that other nodes have learned of the change."""

WITHIN_US: Final = 30_000_000
"""How long the leader may take for a change, unless the step says otherwise."""


@register
@attrs.frozen
class AddVoter(Step):
    """Makes a node with its current disk a voter."""

    verb: ClassVar[str] = "add-voter"
    node: int = part(NODE)
    at: int | None = part(NODE, after="at", default=None)
    within_us: int = part(DURATION, after="within", default=WITHIN_US)
    nowait: bool = flag("nowait")

    async def take(self, cluster: Cluster) -> None:
        request = cluster.administrator.add_voter(self.node, at=self.at, within_s=self.within_us / 1e6)
        await _wait(request, self.nowait)


@register
@attrs.frozen
class RemoveVoter(Step):
    """Removes the voter with this id."""

    verb: ClassVar[str] = "remove-voter"
    node: int = part(NODE)
    at: int | None = part(NODE, after="at", default=None)
    within_us: int = part(DURATION, after="within", default=WITHIN_US)
    nowait: bool = flag("nowait")

    async def take(self, cluster: Cluster) -> None:
        request = cluster.administrator.remove_voter(self.node, at=self.at, within_s=self.within_us / 1e6)
        await _wait(request, self.nowait)


@register
@attrs.frozen
class RemoveLeader(Step):
    """Removes the leader of the highest epoch, if there is one."""

    verb: ClassVar[str] = "remove-leader"
    within_us: int = part(DURATION, after="within", default=WITHIN_US)
    nowait: bool = flag("nowait")

    async def take(self, cluster: Cluster) -> None:
        leader = cluster.leader()
        if leader is not None:
            await RemoveVoter(leader.key.id, None, self.within_us, self.nowait).take(cluster)


@register
@attrs.frozen
class Reassign(Step):
    """Makes these nodes with their current disks the voters, step by step."""

    verb: ClassVar[str] = "reassign"
    nodes: tuple[int, ...] = part(NODES)
    at: int | None = part(NODE, after="at", default=None)
    within_us: int = part(DURATION, after="within", default=WITHIN_US)
    nowait: bool = flag("nowait")

    async def take(self, cluster: Cluster) -> None:
        request = cluster.administrator.reassign(self.nodes, at=self.at, within_s=self.within_us / 1e6)
        await _wait(request, self.nowait)


@register
@attrs.frozen
class CancelReassignment(Step):
    """Ends the reassignment; the voters remain."""

    verb: ClassVar[str] = "cancel-reassignment"
    at: int | None = part(NODE, after="at", default=None)
    within_us: int = part(DURATION, after="within", default=WITHIN_US)
    nowait: bool = flag("nowait")

    async def take(self, cluster: Cluster) -> None:
        request = cluster.administrator.cancel_reassignment(at=self.at, within_s=self.within_us / 1e6)
        await _wait(request, self.nowait)


@register
@attrs.frozen
class Transfer(Step):
    """Hands the leadership over to a voter."""

    verb: ClassVar[str] = "transfer"
    node: int = part(NODE)
    at: int | None = part(NODE, after="at", default=None)
    within_us: int = part(DURATION, after="within", default=WITHIN_US)
    nowait: bool = flag("nowait")

    async def take(self, cluster: Cluster) -> None:
        request = cluster.administrator.transfer(self.node, at=self.at, within_s=self.within_us / 1e6)
        await _wait(request, self.nowait)


@register
@attrs.frozen
class UpgradeKRaftVersion(Step):
    """Finalizes kraft.version 1."""

    verb: ClassVar[str] = "upgrade"
    at: int | None = part(NODE, after="at", default=None)
    within_us: int = part(DURATION, after="within", default=WITHIN_US)
    nowait: bool = flag("nowait")

    async def take(self, cluster: Cluster) -> None:
        await _wait(cluster.administrator.upgrade(at=self.at, within_s=self.within_us / 1e6), self.nowait)


@register
@attrs.frozen
class Move(Step):
    """Gives a node another address for its next start."""

    verb: ClassVar[str] = "move"
    node: int = part(NODE)

    async def take(self, cluster: Cluster) -> None:
        if cluster.setup.kraft_version == 0:
            raise NotAsExpected("move: with kraft-version 0 nobody would hear of it; expected 1")
        if cluster.survivability.permits_move_of(cluster.key_of(self.node)):
            cluster.move(self.node)


@register
@attrs.frozen
class StaticVoters(Step):
    """Writes controller.quorum.voters into the configuration files of all nodes, or of some, for their next start."""

    verb: ClassVar[str] = "static-voters"
    voters: tuple[int, ...] = part(NODES)
    nodes: tuple[int, ...] | None = part(NODES, after="on", default=None)

    async def take(self, cluster: Cluster) -> None:
        if cluster.setup.kraft_version:
            raise NotAsExpected(f"{self.verb}: with kraft-version 1 the log has the voters; expected 0")
        unknown = sorted(set(self.voters) - set(cluster.machines))
        if unknown:
            raise NotAsExpected(f"{self.verb}: {unknown[0]} is no node; expected some of {sorted(cluster.machines)}")
        for node_id in cluster.machines if self.nodes is None else self.nodes:
            cluster.write_static_voters(node_id, self.voters)


@register
@attrs.frozen
class Misadvertise(Step):
    """Makes nodes announce an address where nobody listens, from their next start on."""

    verb: ClassVar[str] = "misadvertise"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        cluster.misadvertise(self.nodes)


@register
@attrs.frozen
class Advertise(Step):
    """Ends `misadvertise`, from their next start on."""

    verb: ClassVar[str] = "advertise"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        cluster.misadvertise(self.nodes, end=True)


async def _wait(request: Request, nowait: bool) -> None:
    if nowait:
        return
    with trio.move_on_after(ANSWERED_WITHIN_S):
        await request.ended.wait()
        await trio.sleep(SPREAD_S)
