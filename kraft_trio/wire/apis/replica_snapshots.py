"""ReplicaSnapshots: describes the log and the snapshots of one node, and can have it take a snapshot.

On request, the answer also has the node's status, as JSON (docs/reference/status.md#what-a-node-tells).

This API is our own.  In Kafka, only the disk of a replica shows the replica's snapshots.  The key is far above Kafka's
keys.  ApiVersions names it: Kafka's clients skip unknown keys, as they do with nodes that are newer than themselves.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

NO_NODE: Final = ReplicaKey(-1)
_NO_END: Final = OffsetAndEpoch(-1, -1)


@attrs.frozen
class ReplicaSnapshotsRequest:
    """With `take`, the node first takes a snapshot, unless the newest one is as new as the state."""

    cluster_id: str | None = None
    """The node refuses a request that has another cluster id than its own."""
    take: bool = False
    with_status: bool = False
    """Whether the answer must contain the status, too."""


@attrs.frozen
class ReplicaSnapshot:
    """A whole snapshot: its end offset (exclusive) and epoch, and the time of the last record that it covers."""

    snapshot_id: OffsetAndEpoch
    size_in_bytes: int
    timestamp_ms: int


@attrs.frozen
class ReplicaSnapshotsResponse:
    """With `error`, all else is unset.  Offsets are exclusive ends, except for the start; -1 means unknown."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    node: ReplicaKey = NO_NODE
    has_state_machine: bool = False
    """A node without a state machine takes no snapshots."""
    log_start_offset: int = -1
    log_end: OffsetAndEpoch = _NO_END
    log_size_in_bytes: int = -1
    high_watermark: int = -1
    snapshots: tuple[ReplicaSnapshot, ...] = ()
    """Oldest first."""
    took_ms: int = -1
    """The duration of the requested snapshot, or -1 if no snapshot was written."""
    status: str | None = None
    """The status as JSON, if it was asked for and the node tells one."""


def _fields_of_request(request: ReplicaSnapshotsRequest, version: int) -> Fields:
    return {"cluster_id": request.cluster_id, "take": request.take, "with_status": request.with_status}


def _request_of_fields(fields: Fields, version: int) -> ReplicaSnapshotsRequest:
    return ReplicaSnapshotsRequest(fields["cluster_id"], fields["take"], fields["with_status"])


def _fields_of_response(response: ReplicaSnapshotsResponse, version: int) -> Fields:
    return {
        "error_code": response.error,
        "error_message": response.error_message,
        "node_id": response.node.id,
        "directory_id": response.node.directory_id,
        "has_state_machine": response.has_state_machine,
        "log_start_offset": response.log_start_offset,
        "log_end_offset": response.log_end.offset,
        "log_end_epoch": response.log_end.epoch,
        "log_size": response.log_size_in_bytes,
        "high_watermark": response.high_watermark,
        "snapshots": [
            {
                "end_offset": snapshot.snapshot_id.offset,
                "epoch": snapshot.snapshot_id.epoch,
                "size": snapshot.size_in_bytes,
                "last_contained_log_timestamp": snapshot.timestamp_ms,
            }
            for snapshot in response.snapshots
        ],
        "took": response.took_ms,
        "status": response.status,
    }


def _response_of_fields(fields: Fields, version: int) -> ReplicaSnapshotsResponse:
    return ReplicaSnapshotsResponse(
        error=fields["error_code"],
        error_message=fields["error_message"],
        node=ReplicaKey(fields["node_id"], fields["directory_id"]),
        has_state_machine=fields["has_state_machine"],
        log_start_offset=fields["log_start_offset"],
        log_end=OffsetAndEpoch(fields["log_end_offset"], fields["log_end_epoch"]),
        log_size_in_bytes=fields["log_size"],
        high_watermark=fields["high_watermark"],
        snapshots=tuple(
            ReplicaSnapshot(
                OffsetAndEpoch(snapshot["end_offset"], snapshot["epoch"]),
                snapshot["size"],
                snapshot["last_contained_log_timestamp"],
            )
            for snapshot in fields["snapshots"]
        ),
        took_ms=fields["took"],
        status=fields["status"],
    )


_SCHEMA: Final = """\
request
    cluster_id: string?
    take: bool
    with_status: bool tag 10000
response
    error_code: error_code
    error_message: string?
    node_id: int32
    directory_id: uuid
    has_state_machine: bool
    log_start_offset: int64
    log_end_offset: int64
    log_end_epoch: int32
    log_size: int64
    high_watermark: int64
    snapshots: [ReplicaSnapshot]
        end_offset: int64
        epoch: int32
        size: int64
        last_contained_log_timestamp: int64
    took: int64
    status: string? tag 10001 = null
"""

REPLICA_SNAPSHOTS: Final = Api(
    key=10_000,
    name="ReplicaSnapshots",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=ReplicaSnapshotsResponse,
)
