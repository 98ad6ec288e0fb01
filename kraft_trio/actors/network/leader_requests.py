"""Fetch and FetchSnapshot: the checks before a request reaches the leader's mailbox, and the response.

Without a leader's mailbox, a consumer that takes any replica's answer gets this one's.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.context.shared_node_id import SharedNodeId
from kraft_trio.actors.network.replica_reads import read_committed
from kraft_trio.actors.peers.answers import Answer, Awaited, Ready
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply, deliver
from kraft_trio.messages import Asker, FetchReceived, FetchSnapshotReceived, QuorumView, SnapshotPiece
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.wire.apis.api_versions import SOFTWARE_NAME
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.error_codes import ErrorCode

TOPIC_IDS_SINCE = 13


class LeaderRequests:
    """Routes Fetch and FetchSnapshot, with Kafka's order of checks (docs/reference/kafka.md#order-of-checks)."""

    def __init__(self, context: NodeContext, view: Published[QuorumView]) -> None:
        self._config = context.config
        self._log = context.log
        self._cluster_id = context.cluster_id
        self._view = view
        self._kafka = context.kafka
        self._shared_id = SharedNodeId(context.key.id)

    async def fetch(self, request: FetchRequest, version: int, listener_name: str, asker: Asker | None) -> Answer:
        are_ours = [self._is_ours(partition, version) for partition in request.partitions]
        if request.replica_id >= 0:
            if request.cluster_id != self._cluster_id:
                return Ready(FetchResponse(error=ErrorCode.inconsistent_cluster_id))
            if are_ours != [True]:
                return Ready(FetchResponse(error=ErrorCode.invalid_request))
            if asker is not None and (asker.software != SOFTWARE_NAME or self._kafka.may_refuse):
                self._kafka.fetched(
                    ReplicaKey(request.replica_id, request.partitions[0].replica_directory_id), asker.software
                )
            if request.replica_id == self._config.node_id and self._view.value.leader_mailbox is not None:
                self._shared_id.fetches(ReplicaKey(request.replica_id, request.partitions[0].replica_directory_id))
        replies = []
        was_ours = False
        for partition, is_ours in zip(request.partitions, are_ours, strict=True):
            reply = await self._route_partition(
                request, partition, version, asker, is_ours=is_ours, is_repeated=was_ours
            )
            replies.append(reply)
            was_ours = was_ours or is_ours

        def respond(answers: Sequence[FetchPartitionResponse]) -> FetchResponse:
            endpoints = self._node_endpoints(answers, request.replica_id, listener_name)
            return FetchResponse(partitions=tuple(answers), node_endpoints=endpoints)

        return Awaited(replies, respond)

    def _is_ours(self, partition: FetchPartition, version: int) -> bool:
        by_id = version >= TOPIC_IDS_SINCE
        topic_is_ours = (
            partition.topic_id == self._config.topic_id if by_id else partition.topic_name == self._config.topic_name
        )
        return topic_is_ours and partition.partition == 0

    async def _route_partition(
        self,
        request: FetchRequest,
        partition: FetchPartition,
        version: int,
        asker: Asker | None,
        *,
        is_ours: bool,
        is_repeated: bool,
    ) -> Reply[FetchPartitionResponse]:
        reply: Reply[FetchPartitionResponse] = Reply()
        view = self._view.value
        if not is_ours:
            by_id = version >= TOPIC_IDS_SINCE and partition.topic_id != self._config.topic_id
            unknown = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
            reply.answer(_failed_fetch(partition, unknown))
        elif (
            error := (ErrorCode.invalid_request if is_repeated else None)
            or self._invalid(request, partition)
            or leader_check(view, partition.current_leader_epoch)
        ) is not None:
            is_read = request.any_replica and request.replica_id < 0 and error is ErrorCode.not_leader_or_follower
            reply.answer(
                read_committed(self._log, view, request, partition, asker)
                if is_read
                else self._refused_fetch(request, partition, error)
            )
        else:
            replica: ReplicaKey | None = None
            if request.replica_id >= 0:
                voters = self._log.voters.voters
                replica = voters.key_of(request.replica_id, partition.replica_directory_id)
            if not await deliver(view.leader_mailbox, FetchReceived(request, partition, replica, reply, asker)):
                reply.answer(self._refused_fetch(request, partition, ErrorCode.not_leader_or_follower))
        return reply

    def _refused_fetch(
        self, request: FetchRequest, partition: FetchPartition, error: ErrorCode
    ) -> FetchPartitionResponse:
        """An error for one partition, with the leader if this node knows it."""
        view = self._view.value
        leader_id, _endpoint = view.named_leader(request.replica_id, self._config.controller_listener_name)
        return _failed_fetch(partition, error, leader_id, view.epoch)

    def _node_endpoints(
        self, responses: Sequence[FetchPartitionResponse], asker_id: int, listener_name: str
    ) -> tuple[tuple[int, Endpoint], ...]:
        """The leader's endpoint, for a response with an error."""
        if not any(response.error for response in responses):
            return ()
        leader_id, endpoint = self._view.value.named_leader(asker_id, listener_name)
        return () if endpoint is None else ((leader_id, endpoint),)

    @staticmethod
    def _invalid(request: FetchRequest, partition: FetchPartition) -> ErrorCode | None:
        """INVALID_REQUEST only for what no sound replica sends, because that error stops a Java peer for good."""
        if request.replica_id < 0:
            return None
        negative = request.max_wait_ms < 0 or partition.fetch_offset < 0 or partition.last_fetched_epoch < 0
        from_the_future = partition.last_fetched_epoch > partition.current_leader_epoch >= 0
        return ErrorCode.invalid_request if negative or from_the_future else None

    async def fetch_snapshot(self, request: FetchSnapshotRequest, listener_name: str) -> Answer:
        is_tool = request.replica_id < 0 and request.cluster_id is None
        if request.cluster_id != self._cluster_id and not is_tool:
            return Ready(FetchSnapshotResponse(error=ErrorCode.inconsistent_cluster_id))
        if not request.topic:
            return Ready(FetchSnapshotResponse(error=ErrorCode.invalid_request))
        if (request.topic, request.partition) != (self._config.topic_name, 0):
            return Ready(
                self._snapshot_response(request, listener_name, SnapshotPiece(ErrorCode.unknown_topic_or_partition))
            )
        view = self._view.value
        error = leader_check(view, request.current_leader_epoch)
        if error is not None:
            return Ready(self._snapshot_response(request, listener_name, SnapshotPiece(error)))
        replica = ReplicaKey(request.replica_id, request.replica_directory_id) if request.replica_id >= 0 else None
        reply: Reply[SnapshotPiece] = Reply()
        if not await deliver(view.leader_mailbox, FetchSnapshotReceived(request, replica, reply)):
            return Ready(
                self._snapshot_response(request, listener_name, SnapshotPiece(ErrorCode.not_leader_or_follower))
            )
        return Awaited((reply,), lambda pieces: self._snapshot_response(request, listener_name, pieces[0]))

    def _snapshot_response(
        self, request: FetchSnapshotRequest, listener_name: str, piece: SnapshotPiece
    ) -> FetchSnapshotResponse:
        """The response, with the leader as this node knows it now."""
        view = self._view.value
        leader_id, leader_endpoint = view.named_leader(request.replica_id, listener_name)
        return FetchSnapshotResponse(
            partition_error=piece.error,
            topic=request.topic,
            partition=request.partition,
            snapshot_id=request.snapshot_id,
            leader_id=leader_id,
            leader_epoch=view.epoch,
            size=piece.size_in_bytes,
            position=request.position,
            unaligned_records=piece.data,
            leader_endpoint=leader_endpoint,
        )


def leader_check(view: QuorumView, request_epoch: int) -> ErrorCode | None:
    """The error if this node does not lead `request_epoch`; a negative epoch means any."""
    if 0 <= request_epoch < view.epoch:
        return ErrorCode.fenced_leader_epoch
    if request_epoch > view.epoch:
        return ErrorCode.unknown_leader_epoch
    if view.leader_mailbox is None:
        return ErrorCode.not_leader_or_follower
    return None


def _failed_fetch(
    partition: FetchPartition, error: ErrorCode, leader_id: int = -1, leader_epoch: int = -1
) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        topic_name=partition.topic_name,
        topic_id=partition.topic_id,
        partition=partition.partition,
        error=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        records=b"",
        leader_id=leader_id,
        leader_epoch=leader_epoch,
    )
