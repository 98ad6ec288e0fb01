"""DescribeLogDirs tells of the node's own directory."""

from __future__ import annotations

import pytest

from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import DESCRIBE_LOG_DIRS
from kraft_trio.wire.apis.describe_log_dirs import DescribedPartition, DescribeLogDirsRequest, LogDirectory
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC
from tests.support.voter_change_requests import ask


@on_cluster(observers=1)
async def test_each_node_tells_the_size_of_its_log(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    await cluster.wait_until_alike()
    for node in cluster.nodes.values():
        answer = await ask(cluster, node, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest())
        partition = DescribedPartition(TOPIC, 0, node.log.size_in_bytes)
        assert (answer.error, answer.directories) == (ErrorCode.none, (LogDirectory("/data", (partition,)),))


@pytest.mark.parametrize(("partition", "found"), [((TOPIC, 0), 1), ((TOPIC, 1), 0), (("other", 0), 0)])
@on_cluster(voters=1)
async def test_only_what_is_asked_for_is_told(cluster: Cluster, partition: tuple[str, int], found: int) -> None:
    leader = await cluster.wait_for_leader()
    answer = await ask(cluster, leader, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest((partition,)))
    [directory] = answer.directories
    assert len(directory.partitions) == found
