"""Kafka Connect in standalone writes to our topic, from a file and from another quorum of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.command import kraft
from harness.kafka import java, why_no_kafka
from harness.ports import free_ports
from harness.quorum import Quorum
from harness.waiting import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        why_no_kafka("connect-file") is not None,
        reason="no connect-file and connect-mirror among its jars",
    ),
]

JVM_SECONDS = 240
TOPIC = "orders"
STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture
def quorum(make_quorum: Any) -> Quorum:
    return started(make_quorum)


def started(make_quorum: Any) -> Quorum:
    made: Quorum = make_quorum(1, kraft_topic_name=TOPIC)
    made.start()
    return made


def write(path: Path, settings: dict[str, object]) -> str:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return str(path)


class Connect:
    """A worker in standalone with one connector."""

    def __init__(self, directory: Path, servers: str, connector: dict[str, object], converter: str = STRING) -> None:
        [port] = free_ports(1)
        worker = {
            "bootstrap.servers": servers,
            "key.converter": converter,
            "value.converter": converter,
            "offset.storage.file.filename": directory / "offsets",
            "offset.flush.interval.ms": 1000,
            "listeners": f"http://127.0.0.1:{port}",
            "plugin.discovery": "only_scan",
        }
        files = [write(directory / "worker.properties", worker), write(directory / "connector.properties", connector)]
        self._log = directory / "connect.out"
        with self._log.open("wb") as log:
            command = java("org.apache.kafka.connect.cli.ConnectStandalone", *files)
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def connected(*arguments: Any) -> Iterator[Connect]:
    worker = Connect(*arguments)
    try:
        yield worker
    finally:
        worker.stop()


def values(quorum: Quorum) -> list[str]:
    done = kraft("records", "read", "--bootstrap-server", quorum.bootstrap_servers, "--from", "0")
    assert done.returncode == 0, done.stderr
    return [line.partition("\t")[2] for line in done.stdout.splitlines()]


@pytest.mark.system("Kafka Connect: file source in standalone", "Kafka")
def test_the_file_source_writes_lines(quorum: Quorum, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    source = {
        "name": "source",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": 1,
        "file": lines,
        "topic": TOPIC,
    }
    with connected(tmp_path, quorum.bootstrap_servers, source):
        wait_until("the lines are in the log", lambda: values(quorum) == ["one", "two"], JVM_SECONDS, 0.5)
        with lines.open("a") as file:
            file.write("three\n")
        wait_until("so is a new one", lambda: values(quorum) == ["one", "two", "three"], JVM_SECONDS, 0.5)


@pytest.mark.system("Kafka Connect: MirrorMaker's source connector in standalone", "Kafka")
def test_the_mirror_source_copies_a_log(make_quorum: Any, quorum: Quorum, tmp_path: Path) -> None:
    """Without MirrorMaker's own topics, which nobody can create here."""
    source = started(make_quorum)
    appended = kraft("records", "append", "--bootstrap-server", source.bootstrap_servers, "one", "two")
    assert appended.returncode == 0, appended.stderr
    assert values(source) == ["one", "two"]
    connector = {
        "name": "mirror",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": 1,
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": quorum.bootstrap_servers,
        "topics": TOPIC,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": 1,
        "emit.offset-syncs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false",
    }
    with connected(tmp_path, quorum.bootstrap_servers, connector, BYTES):
        wait_until("the records are copied", lambda: values(quorum) == ["one", "two"], JVM_SECONDS, 0.5)
