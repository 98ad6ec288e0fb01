"""ListOffsets: the offset that belongs to a timestamp, or to a special value such as LATEST (KIP-79)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import SHARED, ByTopic, Error, Int8, Int32, Int64, Place, String

LATEST: Final = -1
"""The exclusive end of the records that a consumer may read."""
EARLIEST: Final = -2
"""The first offset of the log."""
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734, version 7)."""
EARLIEST_LOCAL: Final = -4
"""The first offset on local disks (KIP-405, version 8)."""
LATEST_TIERED: Final = -5
"""The last offset in remote storage (KIP-1005, version 9)."""
EARLIEST_PENDING_UPLOAD: Final = -6
"""The first offset not yet in remote storage (KIP-1023, version 11)."""


@attrs.frozen
class ListOffsetsPartition:
    """The question for one partition: a timestamp in milliseconds, or one of the special values."""

    topic: Annotated[String, "name", SHARED]
    partition: Int32
    timestamp: Annotated[Int64, Place(after="current_leader_epoch")]
    current_leader_epoch: Annotated[Int32, Place(since=4)] = -1


@attrs.frozen
class ListOffsetsRequest:
    partitions: Annotated[tuple[ListOffsetsPartition, ...], ByTopic("topics"), Place(after="isolation_level")]
    replica_id: Int32 = -1
    isolation_level: Annotated[Int8, Place(since=2)] = 0
    timeout_ms: Annotated[Int32, Place(since=10)] = 0


@attrs.frozen
class ListOffsetsPartitionResponse:
    """The first record at or after the timestamp.  Its timestamp is -1 if the question was a special value."""

    topic: Annotated[String, "name", SHARED]
    partition: Int32
    error: Error = ErrorCode.none
    timestamp_ms: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Place(since=4)] = -1


@attrs.frozen
class ListOffsetsResponse:
    throttle_time_ms: ClassVar[Annotated[Int32, Place(since=2)]] = 0
    partitions: Annotated[tuple[ListOffsetsPartitionResponse, ...], ByTopic("topics")] = ()


LIST_OFFSETS: Final = Api(
    key=2,
    name="ListOffsets",
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    min_version=1,
    max_version=11,
    flexible_version=6,
    error_response=lambda _error, _message: ListOffsetsResponse(),
)
