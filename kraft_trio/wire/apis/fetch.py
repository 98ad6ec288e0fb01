"""Fetch: replicas and consumers read batches.  A replica's position is also its acknowledgement (KIP-595).

A topic is named up to version 12 and has an id from version 13 on (KIP-516); the other field is then empty.

KIP-853 leaves it to the application to tell the leader which kraft.versions an observer supports.  Our request has a
tagged field for them; a leader that does not know it skips it.  Another one has the listeners of a controller that is
no voter, so that the leader can make it a voter when an administrator names nothing but its id (KIP-642).

More serve read barriers (docs/explanation/protocol.md#read-barriers): a response has the round that a read waits for,
and a voter's next Fetch returns it.  With it, the voter may promise to wait if it is elected
(docs/explanation/protocol.md#read-leases).

With another one, a consumer reads from any node, as with KIP-392, but without racks: it chooses the node.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias

import attrs

from kraft_trio.protocol.read_barrier import NO_ROUND
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoints, OffsetAndEpoch, VersionRange
from kraft_trio.wire.apis.endpoints import Listeners, NodeEndpoints
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import (
    SHARED,
    VARIES,
    Bool,
    ByTopic,
    Error,
    Int8,
    Int16,
    Int32,
    Int64,
    Nest,
    Parts,
    Place,
    Records,
    String,
    Uuid,
    Via,
)

UNSUPPORTED_HIGH_WATERMARK: Final = 2**63 - 1
"""The high watermark of a replica that does not send it (KIP-1166, below version 18).  -1 means that it is unknown."""

CONSUMER_REPLICA_ID: Final = -1

OWN_FIELDS_SINCE: Final = 17
"""The first version that names the replica's directory id, by which the leader knows an observer."""


_Topic: TypeAlias = tuple[
    Annotated[Uuid, Place(since=13)],
    Annotated[String, "topic", Place(until=12)],
    Annotated[tuple[Int32, ...], "partitions"],
]
_VersionRange: TypeAlias = Annotated[VersionRange, Parts(minimum=Int16, maximum=Int16)]
_DivergingEpoch: TypeAlias = Annotated[OffsetAndEpoch, Parts(epoch=Int32, offset=Int64)]
_SnapshotId: TypeAlias = Annotated[OffsetAndEpoch, Parts(offset=Int64, epoch=Int32)]
_REPLICA_STATE: Final = Nest("replica_state", Place(since=15, tag=1))
_LEADER: Final = Nest("current_leader", Place(since=12, tag=1))


@attrs.frozen
class FetchPartition:
    """The position in one partition.  `fetch_offset` is the exclusive end of the replica's log."""

    topic_name: Annotated[String, "topic", Place(until=12), SHARED]
    topic_id: Annotated[Uuid, Place(since=13), SHARED]
    partition: Int32
    fetch_offset: Annotated[Int64, Place(after="current_leader_epoch"), VARIES]
    max_bytes: Annotated[Int32, Place(after="log_start_offset")]
    current_leader_epoch: Annotated[Int32, Place(since=9)] = -1
    last_fetched_epoch: Annotated[Int32, Place(since=12), VARIES] = -1
    log_start_offset: Annotated[Int64, Place(since=5)] = -1
    replica_directory_id: Annotated[Uuid, Place(since=17, tag=0)] = NO_DIRECTORY_ID
    high_watermark: Annotated[Int64, Place(since=18, tag=1), VARIES] = UNSUPPORTED_HIGH_WATERMARK


@attrs.frozen
class FetchRequest:
    """`replica_id` is CONSUMER_REPLICA_ID for consumers; a `session_epoch` of -1 means no fetch session (KIP-227)."""

    cluster_id: Annotated[String | None, Place(since=12, tag=0)] = None
    replica_id: Annotated[Int32, Place(until=14)] = CONSUMER_REPLICA_ID
    replica_id_in_state: ClassVar[Annotated[Int32, Place(since=15, of="replica_id"), _REPLICA_STATE]]
    replica_epoch: ClassVar[Annotated[Int64, _REPLICA_STATE]] = -1
    max_wait_ms: Int32 = 500
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2**31 - 1
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Place(since=7)] = 0
    session_epoch: Annotated[Int32, Place(since=7)] = -1
    partitions: Annotated[tuple[FetchPartition, ...], ByTopic("topics")] = ()
    forgotten_topics_data: ClassVar[Annotated[tuple[_Topic, ...], Place(since=7)]] = ()
    rack_id: ClassVar[Annotated[String, Place(since=11)]] = ""
    kraft_versions: Annotated[_VersionRange | None, Place(since=17, tag=10001)] = None
    """What an observer supports.  Voters tell it with UpdateRaftVoter."""
    listeners: Annotated[Listeners, Place(since=17, tag=10000)] = Endpoints()
    """The listeners of a controller that is no voter; otherwise, and below version 17, empty."""
    read_round: Annotated[Int64, Place(since=17, tag=10002)] = NO_ROUND
    """The round of the last response of this leader, or NO_ROUND."""
    read_lease_wait_ms: Annotated[Int32, Place(since=17, tag=10003)] = 0
    """How long the voter would commit nothing if it were elected.  Only with a round, and 0 without leases."""
    any_replica: Annotated[Bool, Place(since=12, tag=10004)] = False
    """Whether a consumer takes the answer of a node that does not lead, up to the high watermark that it knows."""


@attrs.frozen
class FetchPartitionResponse:
    """The answer for one partition: at most one of `records`, `diverging` and `snapshot_id` is set."""

    topic_name: Annotated[String, "topic", Place(until=12), SHARED]
    topic_id: Annotated[Uuid, Place(since=13), SHARED]
    partition: Int32
    error: Error = ErrorCode.none
    high_watermark: Annotated[Int64, VARIES] = -1
    """Exclusive, or -1 if it is unknown."""
    last_stable_offset: Annotated[Int64, VARIES] = -1
    log_start_offset: Annotated[Int64, Place(since=5), VARIES] = -1
    aborted_transactions: ClassVar[tuple[tuple[Int64, Int64], ...] | None] = ()
    preferred_read_replica: ClassVar[Annotated[Int32, Place(since=11)]] = -1
    records: Annotated[bytes, Via(Records | None, read="{} or b''"), VARIES] = b""
    diverging: Annotated[_DivergingEpoch | None, "diverging_epoch", Place(since=12, tag=0)] = None
    """The leader's largest epoch that is not above the requested one, and the exclusive end of that epoch."""
    leader_id: Annotated[Int32, _LEADER] = -1
    leader_epoch: Annotated[Int32, _LEADER] = -1
    snapshot_id: Annotated[_SnapshotId | None, Place(since=12, tag=2)] = None
    read_round: Annotated[Int64, Place(since=17, tag=10002)] = NO_ROUND
    """The round of the newest read that waits at the leader.  Only for voters, and NO_ROUND if no read waits."""


@attrs.frozen
class FetchResponse:
    """`node_endpoints` has the endpoints of the leaders that the partitions name; versions below 16 have none."""

    throttle_time_ms: ClassVar[Int32] = 0
    error: Annotated[Error, Place(since=7)] = ErrorCode.none
    session_id: Annotated[Int32, Place(since=7)] = 0
    partitions: Annotated[tuple[FetchPartitionResponse, ...], ByTopic("responses")] = ()
    node_endpoints: Annotated[NodeEndpoints, Place(since=16, tag=0)] = ()


FETCH: Final = Api(
    key=1,
    name="Fetch",
    request=FetchRequest,
    response=FetchResponse,
    min_version=4,
    max_version=18,
    flexible_version=12,
    error_response=lambda error, _message: FetchResponse(error=error),
)
