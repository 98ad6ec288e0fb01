"""ReplicaSnapshots: what one node's log and snapshots are, and having it take a snapshot now.  An API of our own.

Kafka has nothing like it: there each replica's own snapshots are seen on its own disk only.  The key is far above what
Kafka uses.  ApiVersions names it among the others: Kafka's clients pass over keys that they do not know, as those of
nodes that are newer than they are.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import ENTITY, EntityShape, Fields, FieldShape

NO_NODE: Final = ReplicaKey(-1)
_NO_END: Final = OffsetAndEpoch(-1, -1)


@attrs.frozen
class ReplicaSnapshotsRequest:
    """With `take`, a snapshot is taken first, unless the newest one is as new as the state."""

    cluster_id: str | None = None
    """Where it is another one than the node's, the node refuses."""
    take: bool = False


@attrs.frozen
class ReplicaSnapshot:
    """A whole snapshot: its end offset (exclusive) and epoch, and the time of the last record that it covers."""

    snapshot_id: OffsetAndEpoch
    size_in_bytes: int
    timestamp_ms: int


@attrs.frozen
class ReplicaSnapshotsResponse:
    """`error` leaves the rest unsaid.  Offsets are exclusive ends but for the start; -1 for what is not known."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    node: ReplicaKey = NO_NODE
    has_state_machine: bool = False
    """Without one the node takes no snapshots."""
    log_start_offset: int = -1
    log_end: OffsetAndEpoch = _NO_END
    log_size_in_bytes: int = -1
    high_watermark: int = -1
    snapshots: tuple[ReplicaSnapshot, ...] = ()
    """Oldest first."""
    took_ms: int = -1
    """How long the snapshot that was asked for took; -1 where none was written."""


def _fields_of_request(request: ReplicaSnapshotsRequest, version: int) -> Fields:
    return {"cluster_id": request.cluster_id, "take": request.take}


def _request_of_fields(fields: Fields, version: int) -> ReplicaSnapshotsRequest:
    return ReplicaSnapshotsRequest(fields["cluster_id"], fields["take"])


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
    )


def _structure(name: str, **kinds: str | EntityShape) -> EntityShape:
    """In the compact encoding (KIP-482): a type name, `?` behind it where null is allowed, or the items of an array."""
    fields = []
    for field, kind in kinds.items():
        if isinstance(kind, EntityShape):
            fields.append(FieldShape(field, ENTITY, kind, is_array=True, nullable=False, tag=None, default=None))
        else:
            is_nullable = kind.endswith("?")
            shape = FieldShape(field, kind.rstrip("?"), None, False, is_nullable, None, None)
            fields.append(shape)
    return EntityShape(name, flexible=True, fields=tuple(fields), tagged=())


_SHAPES: Final = {
    "request": _structure("ReplicaSnapshotsRequest", cluster_id="string?", take="bool"),
    "response": _structure(
        "ReplicaSnapshotsResponse",
        error_code="error_code",
        error_message="string?",
        node_id="int32",
        directory_id="uuid",
        has_state_machine="bool",
        log_start_offset="int64",
        log_end_offset="int64",
        log_end_epoch="int32",
        log_size="int64",
        high_watermark="int64",
        snapshots=_structure(
            "ReplicaSnapshot",
            end_offset="int64",
            epoch="int32",
            size="int64",
            last_contained_log_timestamp="int64",
        ),
        took="int64",
    ),
}


REPLICA_SNAPSHOTS: Final = Api(
    key=10_000,
    name="ReplicaSnapshots",
    package=None,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=ReplicaSnapshotsResponse,
    own_shape=lambda kind: _SHAPES[kind],
)
