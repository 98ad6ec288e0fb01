"""Fetches a piece of a snapshot from the leader, as a reader that is no replica."""

from __future__ import annotations

from typing import Final

from kraft_trio.client.connecting import ask
from kraft_trio.client.leader_connection import LeaderConnection, check_answer
from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.wire.api import FETCH_SNAPSHOT
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.error_codes import ErrorCode

_TOOL: Final = -1
"""The replica id of a reader that is not a replica.  Its requests do not count as contact with a replica."""


class NoSnapshotError(ProtocolError):
    """The leader does not have the snapshot, or not any more."""


async def snapshot_piece(
    leader: LeaderConnection, snapshot_id: OffsetAndEpoch, position: int, *, max_bytes: int
) -> FetchSnapshotResponse:
    """Fetch at most `max_bytes` of a snapshot from `position` on (KIP-630).

    Raises NetworkError, RefusedError, NoSnapshotError.
    """
    request = FetchSnapshotRequest(
        cluster_id=leader.cluster_id,
        replica_id=_TOOL,
        max_bytes=max_bytes,
        topic=leader.topic_name,
        partition=0,
        current_leader_epoch=leader.epoch,
        snapshot_id=snapshot_id,
        position=position,
    )
    response = await ask(leader.connection, FETCH_SNAPSHOT, request, leader.request_timeout_ms)
    error = response.error or response.partition_error
    if error in (ErrorCode.snapshot_not_found, ErrorCode.position_out_of_range):
        raise NoSnapshotError(f"snapshot {snapshot_id}: the leader answers {error.name.upper()}")
    check_answer(FETCH_SNAPSHOT.name, error)
    return response
