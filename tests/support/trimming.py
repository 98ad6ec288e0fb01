"""Simulated clusters that trim their logs behind snapshots, and what is looked at of a snapshot's way to a replica."""

from __future__ import annotations

from typing import Any

import trio

from kraft_trio.node import Node
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.link_faults import FrameFate, frames_of
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.wire.api import FETCH_SNAPSHOT
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from tests.support.on_cluster import on_cluster

SETTINGS = {
    "metadata.log.segment.bytes": "1024",
    "metadata.max.retention.bytes": "0",
    "controller.quorum.fetch.snapshot.max.bytes": "500",
}
"""Segments are small and deleted as soon as a snapshot covers them; a snapshot is fetched in many pieces."""


def on_trimming_cluster(**fields: Any) -> Any:
    """As `on_cluster`, with state machines that have snapshots and logs that are trimmed behind them."""
    settings = {**SETTINGS, **fields.pop("settings", {})}
    return on_cluster(settings=settings, state_machine=lambda _: RememberedValues(), **fields)


def values(start: int, count: int) -> list[bytes]:
    return [b"%050d" % number for number in range(start, start + count)]


async def append(node: Node, *batches: list[bytes]) -> None:
    for batch in batches:
        await node.append(batch)


async def trimmed(leader: Node, start: int = 0) -> OffsetAndEpoch:
    """Append enough for some segments, and take a snapshot, behind which the log begins."""
    await append(leader, *(values(number, 10) for number in range(start, start + 100, 10)))
    snapshot_id = await leader.take_snapshot()
    assert snapshot_id is not None
    assert 0 < leader.log.log_start_offset <= snapshot_id.offset
    return snapshot_id


def state_of(cluster: Cluster, node_id: int) -> tuple[int, bytes]:
    """The digest of what that node's state machine has been given, and up to where."""
    node = cluster.nodes[node_id]
    replica = cluster.replica_of(node.key)
    return replica.applied_end, replica.applied_digest


async def until_alike(cluster: Cluster) -> None:
    """Until all nodes' logs and state machines are."""
    await cluster.wait_until_alike()
    await cluster.wait_until(lambda: len({state_of(cluster, id) for id in cluster.nodes}) == 1)


def content_of(cluster: Cluster, node: Node, snapshot_id: OffsetAndEpoch) -> bytes | None:
    return cluster.machines[node.key.id].disk.peek(node.log.snapshots.path(snapshot_id))


class Requests:
    """The FetchSnapshot requests of one node, as they are sent, and what becomes of them."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.seen: list[FetchSnapshotRequest] = []
        self._sent = trio.lowlevel.ParkingLot()
        self._is_request = frames_of(FETCH_SNAPSHOT, is_request=True, source=cluster.machines[node_id].host)
        cluster.network.plan(self._look, FrameFate.RESET)

    def _look(self, message: Message) -> bool:
        if self._is_request(message):
            self.seen.append(message.value)
            self._sent.unpark_all()
        return False

    @property
    def positions(self) -> list[tuple[OffsetAndEpoch, int]]:
        return [(request.snapshot_id, request.position) for request in self.seen]

    async def until(self, count: int) -> None:
        """Until so many have been sent, and no longer."""
        while len(self.seen) < count:
            await self._sent.park()
