"""Admin clients describe the quorum: kafka-python's and our own, whichever node they happen to ask."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import kafka
import pytest

from harness.command import kraft
from harness.quorum import TOPIC, Quorum

VOTERS = [1, 2, 3]


@pytest.fixture(scope="module")
def described_quorum(make_module_quorum: Any) -> Quorum:
    """Three voters and an observer, all of them caught up, and nobody writing."""
    quorum: Quorum = make_module_quorum(3, 1, is_steady=True)
    quorum.start()
    quorum.produce(["one", "two"])
    quorum.wait_until_caught_up()
    return quorum


def assert_describes(answer: dict[str, Any], quorum: Quorum) -> None:
    leader, expected = quorum.described_by_leader()
    [topic] = answer["topics"]
    assert topic["topic_name"] == TOPIC
    [partition] = topic["partitions"]
    assert partition["error"] is None
    assert (partition["leader_id"], partition["leader_epoch"]) == (leader.id, expected.leader_epoch)
    assert partition["high_watermark"] == expected.high_watermark
    assert sorted(voter["replica_id"] for voter in partition["current_voters"]) == VOTERS
    assert {voter["log_end_offset"] for voter in partition["current_voters"]} == {expected.high_watermark}
    assert [observer["replica_id"] for observer in partition["observers"]] == [4]
    ports = {node["node_id"]: node["listeners"][0]["port"] for node in answer["nodes"]}
    assert ports == {node_id: quorum.nodes[node_id].endpoint.port for node_id in [*VOTERS, 4]}


@pytest.mark.parametrize("asked", VOTERS)
def test_kafka_python_admin_client_describes_the_quorum(described_quorum: Quorum, asked: int) -> None:
    endpoint = described_quorum.nodes[asked].endpoint
    client = kafka.KafkaAdminClient(bootstrap_servers=str(endpoint))
    try:
        # It asks a node of its own choice each time, leader or not.
        for _ in range(4):
            assert_describes(client.describe_metadata_quorum(), described_quorum)
        assert client.describe_cluster()["cluster_id"] == described_quorum.cluster_id
    finally:
        client.close()


def test_kafka_python_describe_quorum_command(described_quorum: Quorum) -> None:
    command = [sys.executable, "-m", "kafka.admin", "-b", described_quorum.bootstrap_servers, "--format", "json"]
    completed = subprocess.run(
        [*command, "cluster", "describe-quorum"], capture_output=True, text=True, timeout=120, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert_describes(json.loads(completed.stdout), described_quorum)


@pytest.mark.parametrize("asked", [1, 2, 3, 4])
def test_our_command_finds_the_leader_from_any_node(described_quorum: Quorum, asked: int) -> None:
    leader, expected = described_quorum.described_by_leader()
    bootstrap = str(described_quorum.nodes[asked].endpoint)
    completed = kraft("metadata-quorum", "--bootstrap-controller", bootstrap, "describe", "--status")
    assert completed.returncode == 0, completed.stderr
    status = dict(line.split(":", 1) for line in completed.stdout.splitlines())
    assert status["ClusterId"].strip() == described_quorum.cluster_id
    assert int(status["LeaderId"]) == leader.id
    assert int(status["LeaderEpoch"]) == expected.leader_epoch
    assert int(status["HighWatermark"]) == expected.high_watermark
    assert [voter["id"] for voter in json.loads(status["CurrentVoters"])] == VOTERS


def test_our_command_lists_the_replication_of_every_node(described_quorum: Quorum) -> None:
    bootstrap = described_quorum.bootstrap_servers
    completed = kraft("metadata-quorum", "--bootstrap-controller", bootstrap, "describe", "--replication")
    assert completed.returncode == 0, completed.stderr
    heading, *rows = [line.split() for line in completed.stdout.splitlines() if line.strip()]
    assert heading[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    leader, expected = described_quorum.described_by_leader()
    statuses = {int(row[0]): row[-1] for row in rows}
    assert statuses == {id: "Leader" if id == leader.id else "Follower" for id in VOTERS} | {4: "Observer"}
    assert {(int(row[2]), int(row[3])) for row in rows} == {(expected.high_watermark, 0)}
