"""Kafka's console, verifiable and performance clients, and its tools for topics, with our topic."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from harness.kafka import class_name, java
from harness.quorum import TOPIC, Quorum
from tests.interop.kafka_tools import TOOL_SECONDS, tool

REFUSED = "The node does not support "
NO_GROUP = "The group id does not exist."
NO_TOPIC = f"the only topic here is {TOPIC}: this quorum creates no others"


@pytest.fixture(scope="module")
def servers(make_module_quorum: Any) -> list[str]:
    quorum: Quorum = make_module_quorum(1)
    quorum.start()
    quorum.leader()
    return ["--bootstrap-server", str(quorum.nodes[1].endpoint)]


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def offsets(servers: list[str], *arguments: str) -> int:
    """What kafka-get-offsets says."""
    [line] = lines(tool("GetOffsetShell", *servers, "--topic", TOPIC, *arguments))
    name, partition, offset = line.split(":")
    assert (name, partition) == (TOPIC, "0")
    return int(offset)


def consumed(servers: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return tool("ConsoleConsumer", *servers, "--topic", TOPIC, "--timeout-ms", str(TOOL_SECONDS * 500), *arguments)


def test_the_console_clients_write_and_read(servers: list[str]) -> None:
    begin = offsets(servers)
    command = java(class_name("org.apache.kafka.tools.ConsoleProducer"), *servers, "--topic", TOPIC)
    done = subprocess.run(
        command, input="one\ntwo\n", capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    read = consumed(servers, "--partition", "0", "--offset", str(begin), "--max-messages", "2")
    assert lines(read) == ["one", "two"]


@pytest.mark.nightly
def test_the_console_consumer_is_refused_a_group(servers: list[str], says: Callable[[str], None]) -> None:
    done = consumed(servers, "--from-beginning", "--max-messages", "1")
    assert NO_GROUP in done.stderr
    assert not done.stdout
    says(f'Consumer groups are refused at once: "{NO_GROUP}" Name the partition, as in `--partition 0`')


@pytest.mark.nightly
def test_the_verifiable_consumer_is_refused_its_group(servers: list[str]) -> None:
    done = tool("VerifiableConsumer", *servers, "--topic", TOPIC, "--group-id", "verifiable", "--max-messages", "1")
    assert NO_GROUP in done.stdout + done.stderr
    assert "records_consumed" not in done.stdout


@pytest.mark.nightly
def test_the_verifiable_producer_has_all_acknowledged(servers: list[str]) -> None:
    begin = offsets(servers)
    said = lines(tool("VerifiableProducer", *servers, "--topic", TOPIC, "--max-messages", "50", "--acks", "-1"))
    told = [json.loads(line) for line in said if line.startswith("{")]
    sent = [event["offset"] for event in told if event["name"] == "producer_send_success"]
    assert sorted(sent) == list(range(begin, begin + 50))


@pytest.mark.nightly
def test_the_performance_producer_writes(servers: list[str]) -> None:
    begin = offsets(servers)
    size = ["--num-records", "500", "--record-size", "100", "--throughput", "-1"]
    lines(tool("ProducerPerformance", "--topic", TOPIC, *size, "--producer-props", f"bootstrap.servers={servers[1]}"))
    assert offsets(servers) == begin + 500
    assert offsets(servers, "--time", "earliest") == 0


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "arguments", "refused", "reason"),
    [
        ("TopicCommand", ("--create", "--topic", "another"), "`--create`", NO_TOPIC),
        (
            "ConfigCommand",
            ("--describe", "--entity-type", "topics", "--entity-name", TOPIC),
            "DESCRIBE_CONFIGS",
            REFUSED + "DESCRIBE_CONFIGS",
        ),
        ("ConsumerGroupCommand", ("--list",), "LIST_GROUPS", REFUSED + "LIST_GROUPS"),
        (
            "ConsumerGroupCommand",
            ("--describe", "--group", "readers"),
            "`--describe --group`",
            "GroupIdNotFoundException",
        ),
        ("AclCommand", ("--list",), "DESCRIBE_ACLS", REFUSED + "DESCRIBE_ACLS"),
        ("TransactionsCommand", ("list",), "LIST_TRANSACTIONS", REFUSED + "LIST_TRANSACTIONS"),
        (
            "LeaderElectionCommand",
            ("--election-type", "PREFERRED", "--all-topic-partitions"),
            "ELECT_LEADERS",
            REFUSED + "ELECT_LEADERS",
        ),
    ],
)
@pytest.mark.system("Kafka's tools for topics, configurations and groups", "Kafka")
def test_what_is_not_served_is_refused_at_once(
    servers: list[str], name: str, arguments: tuple[str, ...], refused: str, reason: str, says: Callable[[str], None]
) -> None:
    done = tool(name, *servers, *arguments)
    assert reason in done.stdout + done.stderr
    says(f'{refused} is refused: "{reason}"')


@pytest.mark.nightly
@pytest.mark.system("Kafka's tools for topics, configurations and groups", "Kafka")
def test_the_topic_and_the_cluster_are_named(servers: list[str]) -> None:
    assert lines(tool("TopicCommand", *servers, "--list")) == [TOPIC]
    assert lines(tool("ClusterTool", "cluster-id", *servers))[0].startswith("Cluster ID: ")


@pytest.mark.nightly
@pytest.mark.system("Kafka's tools for topics, configurations and groups", "Kafka")
def test_the_log_directory_is_told(servers: list[str]) -> None:
    said = lines(tool("LogDirsCommand", *servers, "--describe"))
    [told] = [json.loads(line) for line in said if line.startswith("{")]
    [directory] = told["brokers"][0]["logDirs"]
    assert directory["error"] is None
    [partition] = directory["partitions"]
    assert (partition["partition"], partition["offsetLag"], partition["isFuture"]) == (f"{TOPIC}-0", 0, False)
    assert partition["size"] > 0
