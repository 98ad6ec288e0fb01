"""DescribeLogDirs: the node's only directory, with the topic's only partition."""

from __future__ import annotations

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.wire.apis.describe_log_dirs import (
    DescribedPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirectory,
)


class LogDirectoryRequests:
    """Answers in every role, from this node's own log.

    Since 4.2, `kafka-reassign-partitions --execute` asks each node whether its directories take partitions (KIP-1066).
    """

    def __init__(self, context: NodeContext) -> None:
        self._log = context.log
        self._topic_name = context.config.topic_name
        self._path = context.config.metadata_log_dir

    def answer(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Leave out what is not asked for; like Kafka, do not refuse partitions that there are not."""
        is_asked = request.partitions is None or (self._topic_name, 0) in request.partitions
        partition = DescribedPartition(self._topic_name, 0, self._log.size_in_bytes)
        return DescribeLogDirsResponse(directories=(LogDirectory(self._path, (partition,) if is_asked else ()),))
