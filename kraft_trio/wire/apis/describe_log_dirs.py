"""DescribeLogDirs: what a node's directory has of the topic, and what room there is (KIP-113, KIP-827).

Older versions than 3 could not tell a client that it may not ask.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import attrs

from kraft_trio.wire.apis.topics import PartitionsByTopic
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import SHARED, Bool, ByTopic, Error, Int32, Int64, Place, String

UNKNOWN_BYTES: Final = -1


@attrs.frozen
class DescribeLogDirsRequest:
    """`partitions` are pairs of a topic's name and a partition; None means all."""

    partitions: PartitionsByTopic = None


@attrs.frozen
class DescribedPartition:
    """`offset_lag` is the high watermark that the node knows minus its log's end; a replica's is never above that."""

    topic_name: Annotated[String, "name", SHARED]
    partition: Int32
    size_bytes: Int64
    offset_lag: Int64 = 0
    is_future: Bool = False


@attrs.frozen
class LogDirectory:
    """One directory with the asked partitions that are in it."""

    path: Annotated[String, "log_dir", Place(after="error")]
    partitions: Annotated[tuple[DescribedPartition, ...], ByTopic("topics"), Place(after="path")] = ()
    error: Error = ErrorCode.none
    total_bytes: Annotated[Int64, Place(since=4)] = UNKNOWN_BYTES
    """The size of the volume; versions below 4 tell neither this nor `usable_bytes`."""
    usable_bytes: Annotated[Int64, Place(since=4)] = UNKNOWN_BYTES
    is_cordoned: Annotated[Bool, Place(since=5)] = False
    """Whether it takes no new partitions (KIP-1066); versions below 5 do not tell."""


@attrs.frozen
class DescribeLogDirsResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    directories: Annotated[tuple[LogDirectory, ...], "results"] = ()


DESCRIBE_LOG_DIRS: Final = Api(
    key=35,
    name="DescribeLogDirs",
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    min_version=3,
    max_version=5,
    flexible_version=2,
    error_response=lambda error, _message: DescribeLogDirsResponse(error),
)
