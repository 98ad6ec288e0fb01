"""ReplicaSnapshots: describes this node's log and snapshots, and takes a snapshot on request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs
import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.peers.answers import Answer, Ready, Worked
from kraft_trio.errors import CorruptSnapshotError, NodeClosedError, StorageFailure
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshot, ReplicaSnapshotsRequest, ReplicaSnapshotsResponse
from kraft_trio.wire.error_codes import ErrorCode

TellStatus: TypeAlias = Callable[[], Awaitable[str | None]]
"""Tells the node's status as JSON, or None if it has none to tell."""

TakeSnapshot: TypeAlias = Callable[[], Awaitable[OffsetAndEpoch | None]]
"""`Node.take_snapshot`."""

_NO_STATE_MACHINE = (
    "this node has no state machine, so that there is nothing to save and its log is kept whole: "
    "kraft.state.machine names one"
)


class ReplicaSnapshotRequests:
    """Answers ReplicaSnapshots in every role."""

    def __init__(self, context: NodeContext, take_snapshot: TakeSnapshot | None, tell_status: TellStatus) -> None:
        """`take_snapshot` is None if the node has no state machine."""
        self._key = context.key
        self._cluster_id = context.cluster_id
        self._log = context.log
        self._take_snapshot = take_snapshot
        self._tell_status = tell_status

    def route(self, request: ReplicaSnapshotsRequest) -> Answer:
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            message = f"this node is of cluster {self._cluster_id}"
            return Ready(ReplicaSnapshotsResponse(ErrorCode.inconsistent_cluster_id, message))
        if request.with_status and not request.take:
            return Worked(self._with_status)
        if not request.take:
            return Ready(self._described())
        take = self._take_snapshot
        if take is None:
            return Ready(ReplicaSnapshotsResponse(ErrorCode.invalid_request, _NO_STATE_MACHINE))
        return Worked(lambda: self._taken(take))

    async def _with_status(self) -> ReplicaSnapshotsResponse:
        status = await self._tell_status()
        return attrs.evolve(self._described(), status=status)

    async def _taken(self, take: TakeSnapshot) -> ReplicaSnapshotsResponse:
        """Take a snapshot.  The response names a write error; SnapshotTaker raises it in the node."""
        before, began_at_s = self._log.snapshots.newest, trio.current_time()
        try:
            newest = await take()
        except (StorageFailure, NodeClosedError) as error:
            return ReplicaSnapshotsResponse(ErrorCode.kafka_storage_error, str(error))
        if newest is None:
            return ReplicaSnapshotsResponse(ErrorCode.snapshot_not_found, "nothing has been committed yet")
        took_ms = round((trio.current_time() - began_at_s) * 1000)
        described = self._described(took_ms if newest != before else -1)
        if not described.snapshots or described.snapshots[-1].snapshot_id != newest:
            message = f"snapshot {newest}, the newest, is damaged; the next one is taken once there is more to save"
            return ReplicaSnapshotsResponse(ErrorCode.kafka_storage_error, message)
        return described

    def _described(self, took_ms: int = -1) -> ReplicaSnapshotsResponse:
        log = self._log
        return ReplicaSnapshotsResponse(
            node=self._key,
            has_state_machine=self._take_snapshot is not None,
            log_start_offset=log.log_start_offset,
            log_end=log.end,
            log_size_in_bytes=log.size_in_bytes,
            high_watermark=-1 if log.high_watermark is None else log.high_watermark,
            snapshots=tuple(filter(None, map(self._snapshot, log.snapshots.ids))),
            took_ms=took_ms,
        )

    def _snapshot(self, snapshot_id: OffsetAndEpoch) -> ReplicaSnapshot | None:
        """Describe a snapshot; None if it is known to be damaged."""
        if snapshot_id in self._log.snapshots.corrupt:
            return None
        try:
            file = self._log.snapshots.file(snapshot_id)
        except (CorruptSnapshotError, OSError):
            return None
        return ReplicaSnapshot(snapshot_id, file.size_in_bytes, file.timestamp_ms)
