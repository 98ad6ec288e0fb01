"""FetchSnapshot: the checks before it reaches the leader's mailbox, and the answer's assembly."""

from __future__ import annotations

from kraft_trio.actors.answers import Answer, Awaited, Ready
from kraft_trio.actors.fetch_requests import leader_check, leader_endpoint
from kraft_trio.actors.published import Published
from kraft_trio.config import NodeConfig
from kraft_trio.messages import FetchSnapshotReceived, QuorumView, Reply, SnapshotPiece, deliver
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.error_codes import ErrorCode


class SnapshotRequests:
    """Routes FetchSnapshot, with Kafka's order of checks (docs/KAFKA.md#order-of-checks)."""

    def __init__(self, config: NodeConfig, cluster_id: str, view: Published[QuorumView]) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._view = view

    async def route(self, request: FetchSnapshotRequest, listener_name: str) -> Answer:
        is_tool = request.replica_id < 0 and request.cluster_id is None
        if request.cluster_id != self._cluster_id and not is_tool:
            return Ready(FetchSnapshotResponse(error=ErrorCode.inconsistent_cluster_id))
        if not request.topic:
            return Ready(FetchSnapshotResponse(error=ErrorCode.invalid_request))
        if (request.topic, request.partition) != (self._config.topic_name, 0):
            return Ready(self._response(request, listener_name, SnapshotPiece(ErrorCode.unknown_topic_or_partition)))
        view = self._view.value
        error = leader_check(view, request.current_leader_epoch)
        if error is not None:
            return Ready(self._response(request, listener_name, SnapshotPiece(error)))
        replica = ReplicaKey(request.replica_id, request.replica_directory_id) if request.replica_id >= 0 else None
        reply: Reply[SnapshotPiece] = Reply()
        if not await deliver(view.leader_mailbox, FetchSnapshotReceived(request, replica, reply)):
            return Ready(self._response(request, listener_name, SnapshotPiece(ErrorCode.not_leader_or_follower)))
        return Awaited((reply,), lambda pieces: self._response(request, listener_name, pieces[0]))

    def _response(
        self, request: FetchSnapshotRequest, listener_name: str, piece: SnapshotPiece
    ) -> FetchSnapshotResponse:
        """With the leader as this node knows it now."""
        view = self._view.value
        return FetchSnapshotResponse(
            partition_error=piece.error,
            topic=request.topic,
            partition=request.partition,
            snapshot_id=request.snapshot_id,
            leader_id=-1 if view.leader_id is None else view.leader_id,
            leader_epoch=view.epoch,
            size=piece.size_in_bytes,
            position=request.position,
            unaligned_records=piece.data,
            leader_endpoint=leader_endpoint(view, listener_name),
        )
