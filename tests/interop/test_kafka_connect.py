"""Kafka Connect in standalone writes to our topic, from a file and from another quorum of ours.

Sinks, workers in distributed mode and MirrorMaker are refused: they need consumer groups, or topics of their own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.command import kraft
from harness.kafka import LIBRARIES, java, kafka_version, why_no_kafka
from harness.ports import free_ports
from harness.quorum import Quorum
from harness.waiting import wait_until

pytestmark = pytest.mark.nightly

mirror = pytest.mark.skipif(why_no_kafka("connect-mirror") is not None, reason="no connect-mirror among its jars")
HAS_FILE = why_no_kafka("connect-file") is None
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector" if HAS_FILE else "LineSource"
OURS = [Path(__file__).with_name(f"{name}.java") for name in ("LineSource", "LineSink")]

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


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the connectors of these tests are compiled."""
    made = tmp_path_factory.mktemp("classes")
    command = ["javac", "-cp", f"{LIBRARIES}/*", "-d", str(made), *map(str, OURS)]
    subprocess.run(command, check=True, capture_output=True, timeout=JVM_SECONDS)
    return made


@contextmanager
def running(directory: Path, command: list[str]) -> Iterator[Callable[[], str]]:
    """Run a process, and tell when asked what it has printed."""
    path = directory / "connect.out"
    with path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
    try:
        yield lambda: path.read_text(errors="replace")
    finally:
        process.kill()
        process.wait()


def worker_settings(servers: str, converter: str) -> dict[str, object]:
    [port] = free_ports(1)
    return {
        "bootstrap.servers": servers,
        "key.converter": converter,
        "value.converter": converter,
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "only_scan",
    }


def standalone(
    directory: Path, servers: str, connector: dict[str, object], converter: str = STRING, classes: Path | None = None
) -> list[str]:
    """The command of a worker with one connector."""
    offsets = {"offset.storage.file.filename": directory / "offsets", "offset.flush.interval.ms": 1000}
    worker = {**worker_settings(servers, converter), **offsets}
    files = [write(directory / "worker.properties", worker), write(directory / "connector.properties", connector)]
    return java("org.apache.kafka.connect.cli.ConnectStandalone", *files, classes=classes)


def values(quorum: Quorum) -> list[str]:
    done = kraft("records", "read", "--bootstrap-server", quorum.bootstrap_servers, "--from", "0")
    assert done.returncode == 0, done.stderr
    return [line.partition("\t")[2] for line in done.stdout.splitlines()]


@pytest.mark.system("Kafka Connect: file source in standalone", "Kafka")
def test_the_file_source_writes_lines(
    quorum: Quorum, tmp_path: Path, classes: Path, says: Callable[[str], None]
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    source = {
        "name": "source",
        "connector.class": SOURCE,
        "tasks.max": 1,
        "file": lines,
        "topic": TOPIC,
    }
    if not HAS_FILE:
        release = ".".join(map(str, kafka_version()))
        says(f"With a connector of the test, because there is no connect-file {release} on Maven Central")
    with running(tmp_path, standalone(tmp_path, quorum.bootstrap_servers, source, STRING, classes)):
        wait_until("the lines are in the log", lambda: values(quorum) == ["one", "two"], JVM_SECONDS, 0.5)
        with lines.open("a") as file:
            file.write("three\n")
        wait_until("so is a new one", lambda: values(quorum) == ["one", "two", "three"], JVM_SECONDS, 0.5)


@mirror
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
    with running(tmp_path, standalone(tmp_path, quorum.bootstrap_servers, connector, BYTES)):
        wait_until("the records are copied", lambda: values(quorum) == ["one", "two"], JVM_SECONDS, 0.5)


# What is refused


NO_GROUP = "GroupIdNotFoundException: The group id does not exist."
NO_TOPICS = f"PolicyViolationException: the only topic here is {TOPIC}: this quorum creates no others"


@pytest.mark.system("Kafka Connect: sinks", "Kafka")
def test_a_sink_is_refused_its_group(
    quorum: Quorum, tmp_path: Path, classes: Path, says: Callable[[str], None]
) -> None:
    appended = kraft("records", "append", "--bootstrap-server", quorum.bootstrap_servers, "one")
    assert appended.returncode == 0, appended.stderr
    sink = {"name": "sink", "connector.class": "LineSink", "tasks.max": 1, "topics": TOPIC}
    with running(tmp_path, standalone(tmp_path, quorum.bootstrap_servers, sink, STRING, classes)) as said:
        wait_until("the task has failed", lambda: "Task is being killed" in said(), JVM_SECONDS, 0.5)
        wait_until("the reason is told", lambda: NO_GROUP in said(), JVM_SECONDS, 0.5)
        assert "sunk" not in said()
    says(f"The task fails at once: `{NO_GROUP}`")


@pytest.mark.system("Kafka Connect in distributed mode", "Kafka")
def test_a_distributed_worker_is_refused_its_topics(
    quorum: Quorum, tmp_path: Path, says: Callable[[str], None]
) -> None:
    kinds = ("config", "offset", "status")
    topics = {f"{kind}.storage.topic": kind for kind in kinds}
    copies = {f"{kind}.storage.replication.factor": 1 for kind in kinds}
    worker = {**worker_settings(quorum.bootstrap_servers, STRING), "group.id": "workers", **topics, **copies}
    file = write(tmp_path / "worker.properties", worker)
    with running(tmp_path, java("org.apache.kafka.connect.cli.ConnectDistributed", file)) as said:
        wait_until("the reason is told", lambda: NO_TOPICS in said(), JVM_SECONDS, 0.5)
    says(f"The worker ends: `{NO_TOPICS}`")


@mirror
@pytest.mark.system("MirrorMaker's own process", "Kafka")
def test_mirror_maker_is_refused_its_topics(
    make_quorum: Any, quorum: Quorum, tmp_path: Path, says: Callable[[str], None]
) -> None:
    servers = {"a.bootstrap.servers": started(make_quorum).bootstrap_servers}
    servers |= {"b.bootstrap.servers": quorum.bootstrap_servers}
    settings = {"clusters": "a,b", **servers, "a->b.enabled": "true", "a->b.topics": TOPIC, "replication.factor": 1}
    file = write(tmp_path / "mirror.properties", settings)
    with running(tmp_path, java("org.apache.kafka.connect.mirror.MirrorMaker", file)) as said:
        wait_until("the reason is told", lambda: NO_TOPICS in said(), JVM_SECONDS, 0.5)
    says(f"It logs `{NO_TOPICS}`, and does nothing from then on")
