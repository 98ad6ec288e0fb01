"""Hundreds of requests for snapshots, and for impossible pieces."""

from __future__ import annotations

from harness.quorum import TOPIC
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.wire.api import FETCH_SNAPSHOT, REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from scripts.attacks import trim
from scripts.attacks.arena import LISTENERS, Arena, frame_of, refusable

SETTINGS = trim.SETTINGS
AT_ONCE = 50
POSITIONS = (0, -1, 1, 2**31, 2**63 - 1, -(2**63))
MOST_BYTES = (0, 1, -1, 2**31 - 1, -(2**31))


def play(arena: Arena) -> None:
    """First the orders, pipelined, then every position in what there is, and in what there is not."""
    order = frame_of(REPLICA_SNAPSHOTS, ReplicaSnapshotsRequest(take=True))
    for _ in range(arena.count(10, 1)):
        for listener in LISTENERS:
            with refusable(), arena.connect(listener, seconds=2) as connection:
                connection.send_bytes(order * AT_ONCE)
                arena.sent.frames += AT_ONCE - 1
                connection.wait_for_answers(AT_ONCE)
    with arena.connect("CONTROLLER") as connection:
        taken = connection.request(REPLICA_SNAPSHOTS, ReplicaSnapshotsRequest()).snapshots
    ids = [*(snapshot.snapshot_id for snapshot in taken[-2:]), OffsetAndEpoch(-1, -1), OffsetAndEpoch(2**62, 2**30)]
    for listener in LISTENERS:
        for frame in frames(arena, ids):
            arena.send(frame, listener, seconds=2)


def frames(arena: Arena, ids: list[OffsetAndEpoch]) -> list[bytes]:
    return [
        frame_of(
            FETCH_SNAPSHOT,
            FetchSnapshotRequest(arena.quorum.cluster_id, 99, max_bytes, TOPIC, 0, arena.epoch, snapshot_id, position),
        )
        for snapshot_id in ids
        for position in POSITIONS
        for max_bytes in MOST_BYTES
    ]
