"""DescribeLogDirs: what a node's directory has of the topic, and what room there is (KIP-113, KIP-827).

Older versions than 3 could not tell a client that it may not ask.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.apis.topics import by_name
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

UNKNOWN_BYTES: Final = -1


@attrs.frozen
class DescribeLogDirsRequest:
    """`partitions` are pairs of a topic's name and a partition; None means all."""

    partitions: tuple[tuple[str, int], ...] | None = None


@attrs.frozen
class DescribedPartition:
    """`offset_lag` is the high watermark that the node knows minus its log's end; a replica's is never above that."""

    topic_name: str
    partition: int
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


@attrs.frozen
class LogDirectory:
    """One directory with the asked partitions that are in it."""

    path: str
    partitions: tuple[DescribedPartition, ...] = ()
    error: ErrorCode = ErrorCode.none
    total_bytes: int = UNKNOWN_BYTES
    """The size of the volume; versions below 4 tell neither this nor `usable_bytes`."""
    usable_bytes: int = UNKNOWN_BYTES
    is_cordoned: bool = False
    """Whether it takes no new partitions (KIP-1066); versions below 5 do not tell."""


@attrs.frozen
class DescribeLogDirsResponse:
    error: ErrorCode = ErrorCode.none
    directories: tuple[LogDirectory, ...] = ()


def _fields_of_request(request: DescribeLogDirsRequest, version: int) -> Fields:
    if request.partitions is None:
        return {"topics": None}
    topics: dict[str, list[int]] = {}
    for name, partition in request.partitions:
        topics.setdefault(name, []).append(partition)
    return {"topics": [{"topic": name, "partitions": partitions} for name, partitions in topics.items()]}


def _request_of_fields(fields: Fields, version: int) -> DescribeLogDirsRequest:
    topics = fields["topics"]
    if topics is None:
        return DescribeLogDirsRequest()
    pairs = ((topic["topic"], partition) for topic in topics for partition in topic["partitions"])
    return DescribeLogDirsRequest(tuple(pairs))


def _fields_of_response(response: DescribeLogDirsResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "results": [
            {
                "error_code": directory.error,
                "log_dir": directory.path,
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {
                                "partition_index": partition.partition,
                                "partition_size": partition.size_bytes,
                                "offset_lag": partition.offset_lag,
                                "is_future_key": partition.is_future,
                            }
                            for partition in partitions
                        ],
                    }
                    for name, partitions in by_name(directory.partitions)
                ],
                "total_bytes": directory.total_bytes,
                "usable_bytes": directory.usable_bytes,
                "is_cordoned": directory.is_cordoned,
            }
            for directory in response.directories
        ],
    }


def _response_of_fields(fields: Fields, version: int) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        fields["error_code"],
        tuple(
            LogDirectory(
                result["log_dir"],
                tuple(
                    DescribedPartition(
                        topic["name"],
                        partition["partition_index"],
                        partition["partition_size"],
                        partition["offset_lag"],
                        partition["is_future_key"],
                    )
                    for topic in result["topics"]
                    for partition in topic["partitions"]
                ),
                result["error_code"],
                result.get("total_bytes", UNKNOWN_BYTES),
                result.get("usable_bytes", UNKNOWN_BYTES),
                result.get("is_cordoned", False),
            )
            for result in fields["results"]
        ),
    )


_SCHEMA: Final = """\
request
    topics: [DescribableLogDirTopic]?
        topic: string
        partitions: [int32]
response
    throttle_time: int32
    error_code: error_code
    results: [DescribeLogDirsResult]
        error_code: error_code
        log_dir: string
        topics: [DescribeLogDirsTopic]
            name: string
            partitions: [DescribeLogDirsPartition]
                partition_index: int32
                partition_size: int64
                offset_lag: int64
                is_future_key: bool
        total_bytes: int64 4+
        usable_bytes: int64 4+
        is_cordoned: bool 5+
"""

DESCRIBE_LOG_DIRS: Final = Api(
    key=35,
    name="DescribeLogDirs",
    schema=_SCHEMA,
    min_version=3,
    max_version=5,
    flexible_version=2,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: DescribeLogDirsResponse(error),
)
