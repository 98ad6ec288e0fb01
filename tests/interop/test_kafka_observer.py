"""Kafka's raft observes a log of ours, and lives, because the leader refuses what it cannot read."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from harness.command import kraft
from harness.kafka import java
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import STEADY, random_uuid
from harness.waiting import wait_until
from kraft_trio.client import LogClient
from kraft_trio.errors import RefusedError
from kraft_trio.storage.batch import NewRecord

JVM_SECONDS = 90
TOPIC = "__raft_performance_test"
SETTINGS = {"kraft.topic.name": TOPIC, "kraft.topic.id": "AAAAAAAAAAAAAAAAAAAAAg"}
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What TestRaftServer has built in."""


class KafkaObserver:
    """A TestRaftServer that no voter set names."""

    def __init__(self, directory: Path, leader: NodeProcess) -> None:
        [port] = free_ports(1)
        self.directory = directory / "kafka"
        settings = {
            "process.roles": "controller",
            "node.id": 9,
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": leader.endpoint,
            "log.dirs": self.directory,
        }
        self._properties = directory / "kafka.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._log = directory / "kafka.out"
        options = ["--config", str(self._properties), "--replica-directory-id", random_uuid()]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(java("kafka.tools.TestRaftServer", *options), stdout=log, stderr=log)

    def log_bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.directory.glob(f"{TOPIC}-0/*.log")))

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[NodeProcess]:
    [port] = free_ports(1)
    node = NodeProcess(1, tmp_path / "node-1", port)
    node.write_properties(
        {
            "node.id": 1,
            "listeners": f"CONTROLLER://{node.endpoint}",
            "controller.quorum.bootstrap.servers": node.endpoint,
            "metadata.log.dir": node.directory,
            **STEADY,
            **SETTINGS,
        }
    )
    formatted = kraft("storage", "format", "-t", CLUSTER_ID, "--standalone", "-c", str(node.properties))
    assert formatted.returncode == 0, formatted.stderr
    node.start()
    node.wait_until_listening()
    yield node
    node.kill()


@pytest.fixture
def kafka(leader: NodeProcess, tmp_path: Path) -> Iterator[KafkaObserver]:
    observer = KafkaObserver(tmp_path, leader)
    yield observer
    observer.process.kill()
    observer.process.wait(JVM_SECONDS)


def append(leader: NodeProcess, *records: NewRecord) -> None:
    async def run() -> None:
        async with LogClient([leader.endpoint], topic_name=TOPIC) as client:
            await client.produce(list(records))

    trio.run(run)


def our_bytes(leader: NodeProcess) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(leader.directory.glob(f"{TOPIC}-0/*.log")))


def test_kafka_lives_and_has_the_same_log(leader: NodeProcess, kafka: KafkaObserver) -> None:
    append(leader, NewRecord(b"before Kafka has fetched"))
    wait_until("Kafka has the log", lambda: kafka.log_bytes() == our_bytes(leader), JVM_SECONDS)
    for refused, reason in (
        ([NewRecord(b"value", b"key")], "it has a key"),
        ([NewRecord(b"a", timestamp_ms=1), NewRecord(b"b", timestamp_ms=2)], "its timestamp is 1 ms after"),
        ([NewRecord(None)], "its value is null"),
    ):
        with pytest.raises(RefusedError, match=reason):
            append(leader, *refused)
    append(leader, *(NewRecord(b"value %d" % number) for number in range(100)))
    wait_until("Kafka has the log again", lambda: kafka.log_bytes() == our_bytes(leader), JVM_SECONDS)
    assert kafka.process.poll() is None, kafka.said()


@pytest.mark.nightly
def test_kafka_ends_at_a_key_that_is_not_refused(leader: NodeProcess, tmp_path: Path) -> None:
    leader.kill()
    with leader.properties.open("a") as file:
        file.write("kraft.kafka.records=any\n")
    leader.start()
    leader.wait_until_listening()
    append(leader, NewRecord(b"value", b"key"))
    kafka = KafkaObserver(tmp_path, leader)
    try:
        wait_until("Kafka has ended", lambda: kafka.process.poll() is not None, JVM_SECONDS)
        assert "Got key in the record when no key was expected" in kafka.said()
    finally:
        kafka.process.kill()
        kafka.process.wait(JVM_SECONDS)
