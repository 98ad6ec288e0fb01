"""Consumers that wait at an offset that a trim then removes."""

from __future__ import annotations

from uuid import UUID

from harness.quorum import TOPIC
from harness.waiting import wait_until
from kraft_trio.wire.api import FETCH, REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from scripts.attacks.arena import Arena, frame_of

SETTINGS = {
    "kraft.state.machine": "latest-by-key",
    "metadata.log.segment.bytes": "4096",
    "metadata.log.max.record.bytes.between.snapshots": "16384",
    "metadata.max.retention.bytes": "16384",
}
CONSUMERS = 20


def play(arena: Arena) -> None:
    """Park at offsets from the log's start on, for longer than the trims take."""
    parked = []
    first = _log_start(arena)
    for number in range(CONSUMERS):
        connection = arena.connect()
        partition = FetchPartition(TOPIC, UUID(int=1), 0, first + number, 1024**2)
        request = FetchRequest(max_wait_ms=60_000, min_bytes=2**31 - 1, partitions=(partition,))
        connection.send_bytes(frame_of(FETCH, request))
        parked.append(connection)
    wait_until("the log is trimmed", lambda: _log_start(arena) > first + CONSUMERS)
    for connection in parked:
        assert connection.wait_for_answers() == 1, "the node did not answer a parked Fetch"


def _log_start(arena: Arena) -> int:
    with arena.connect("CONTROLLER") as connection:
        return connection.request(REPLICA_SNAPSHOTS, ReplicaSnapshotsRequest()).log_start_offset
