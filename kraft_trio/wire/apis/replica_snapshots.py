"""ReplicaSnapshots: describes the log and the snapshots of one node, and can have it take a snapshot.

On request, the answer also has the node's status, as JSON (docs/reference/status.md#what-a-node-tells).

This API is our own.  In Kafka, only the disk of a replica shows the replica's snapshots.  The key is far above Kafka's
keys.  ApiVersions names it: Kafka's clients skip unknown keys, as they do with nodes that are newer than themselves.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import INLINE, Bool, Error, Int32, Int64, Parts, Place, String, Uuid

NO_NODE: Final = ReplicaKey(-1)
_NO_END: Final = OffsetAndEpoch(-1, -1)
_End: TypeAlias = Annotated[OffsetAndEpoch, Parts(offset=Int64, epoch=Int32), INLINE]


@attrs.frozen
class ReplicaSnapshotsRequest:
    """With `take`, the node first takes a snapshot, unless the newest one is as new as the state."""

    cluster_id: String | None = None
    """The node refuses a request that has another cluster id than its own."""
    take: Bool = False
    with_status: Annotated[Bool, Place(tag=10000)] = False
    """Whether the answer must contain the status, too."""


@attrs.frozen
class ReplicaSnapshot:
    """A whole snapshot: its end offset (exclusive) and epoch, and the time of the last record that it covers."""

    snapshot_id: _End
    size_in_bytes: Int64
    timestamp_ms: Int64


@attrs.frozen
class ReplicaSnapshotsResponse:
    """With `error`, all else is unset.  Offsets are exclusive ends, except for the start; -1 means unknown."""

    error: Error = ErrorCode.none
    error_message: String | None = None
    node: Annotated[ReplicaKey, Parts(id=Int32, directory_id=Uuid), INLINE] = NO_NODE
    has_state_machine: Bool = False
    """A node without a state machine takes no snapshots."""
    log_start_offset: Int64 = -1
    log_end: _End = _NO_END
    log_size_in_bytes: Int64 = -1
    high_watermark: Int64 = -1
    snapshots: tuple[ReplicaSnapshot, ...] = ()
    """Oldest first."""
    took_ms: Int64 = -1
    """The duration of the requested snapshot, or -1 if no snapshot was written."""
    status: Annotated[String | None, Place(tag=10001)] = None
    """The status as JSON, if it was asked for and the node tells one."""


REPLICA_SNAPSHOTS: Final = Api(
    key=10_000,
    name="ReplicaSnapshots",
    request=ReplicaSnapshotsRequest,
    response=ReplicaSnapshotsResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=ReplicaSnapshotsResponse,
)
