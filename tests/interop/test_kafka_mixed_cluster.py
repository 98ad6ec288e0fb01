"""A node of ours observes a whole cluster of Kafka's while topics are created and written."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.command import kraft
from harness.kafka import java, kafka_version
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.waiting import wait_until
from tests.interop.kafka_broker import Broker
from tests.interop.kafka_controllers import Controllers
from tests.interop.kafka_tools import tool
from tests.interop.mixed_quorum import SECONDS, batches_of
from tests.interop.test_kafka_metadata_records import kafkas_dumps, our_dump

pytestmark = pytest.mark.nightly

OBSERVER = 7


@pytest.fixture
def controllers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Controllers]:
    """Kafka's own; the parameter has their ids, and perhaps an older release."""
    made = Controllers(tmp_path, *request.param)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def observer(controllers: Controllers, tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(OBSERVER, tmp_path / f"node-{OBSERVER}", *free_ports(1))
    node.write_properties(
        {
            "node.id": OBSERVER,
            "process.roles": "broker",
            "listeners": f"CLIENT://{node.endpoint}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in controllers.ports.values()),
            "metadata.log.dir": node.directory,
        }
    )
    formatted = kraft("storage", "format", "-t", controllers.cluster_id, "-N", "-c", str(node.properties))
    assert formatted.returncode == 0, formatted.stderr
    node.start()
    yield node
    node.kill()


@pytest.fixture
def broker(controllers: Controllers, tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, controllers)
    yield made
    made.stop()


def add_voters(controllers: Controllers) -> None:
    """Kafka's tool adds 2, and ours 3."""
    wait_until("the others observe", lambda: has_observers(controllers, 2, 3), SECONDS)
    asked = ["--bootstrap-controller", f"127.0.0.1:{controllers.ports[1]}"]
    config = ["--command-config", str(controllers.properties(2))]
    by_kafkas = tool("MetadataQuorumCommand", *asked, *config, "add-controller")
    assert "Added controller 2 " in by_kafkas.stdout, by_kafkas.stdout + by_kafkas.stderr
    by_ours = controllers.ask(1, "metadata-quorum", "add-controller", "-c", str(controllers.properties(3)))
    assert by_ours.stdout.startswith("Added controller 3 "), by_ours.stdout + by_ours.stderr
    described = controllers.replicas(1)
    assert described is not None
    assert described[0] == [1, 2, 3]


def has_observers(controllers: Controllers, *node_ids: int) -> bool:
    described = controllers.replicas(1)
    return described is not None and set(node_ids) <= set(described[1])


def create(broker: Broker, *topic: str) -> None:
    """The broker may still be starting, or look for the active controller."""
    command = ["--bootstrap-server", broker.endpoint, "--create", "--if-not-exists", "--topic", *topic]
    wait_until(f"{topic} is created", lambda: tool("TopicCommand", *command).returncode == 0, SECONDS)


def offsets(broker: Broker, topic: str) -> int:
    """How many records the partitions have."""
    told = tool("GetOffsetShell", "--bootstrap-server", broker.endpoint, "--topic", topic)
    assert told.returncode == 0, told.stderr
    return sum(int(line.rpartition(":")[2]) for line in told.stdout.splitlines())


def metadata_in(node: NodeProcess, kind: str) -> list[dict[str, Any]]:
    """The records of one type in its snapshots and its log; all of them once it is stopped."""
    files = [*node.partition_directory.glob("*.checkpoint"), *node.partition_directory.glob("*.log")]
    done = kraft("dump-log", "--metadata", "--json", *map(str, files))
    records = [
        record for line in done.stdout.splitlines() if line.startswith("{") for record in json.loads(line)["records"]
    ]
    found = [record["metadata"] for record in records if "metadata" in record]
    return [metadata["data"] for metadata in found if metadata["type"] == kind]


def topics_in(node: NodeProcess) -> set[str]:
    return {topic["name"] for topic in metadata_in(node, "TOPIC_RECORD")}


def levels_in(node: NodeProcess) -> set[int]:
    features = metadata_in(node, "FEATURE_LEVEL_RECORD")
    return {feature["featureLevel"] for feature in features if feature["name"] == "metadata.version"}


@pytest.mark.parametrize("controllers", [((1, 2, 3),)], indirect=True)
def test_the_log_is_the_same_and_has_each_topic(
    controllers: Controllers, observer: NodeProcess, broker: Broker, tmp_path: Path
) -> None:
    """Kafka's clients write meanwhile, and two controllers are killed one after the other."""
    add_voters(controllers)
    create(broker, "first", "--partitions", "3")
    writing = [
        ("VerifiableProducer", ["--bootstrap-server", broker.endpoint, "--max-messages", "200", "--throughput", "50"]),
        (
            "ProducerPerformance",
            [
                *("--num-records", "2000", "--record-size", "100", "--throughput", "500"),
                *("--producer-props", f"bootstrap.servers={broker.endpoint}"),
            ],
        ),
    ]
    processes = [
        subprocess.Popen(
            java(f"org.apache.kafka.tools.{name}", "--topic", "first", *arguments), stdout=subprocess.DEVNULL
        )
        for name, arguments in writing
    ]
    try:
        for number, topic in ((1, "second"), (2, "third")):
            controllers.kill(number)
            create(broker, topic, "--config", "retention.ms=1000")
            controllers.run(number)
            asked = 2 if number == 1 else 1
            wait_until("it is back", lambda asked=asked: follows(controllers, asked, 3), SECONDS)
        codes = [process.wait(SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes == [0, 0]
    assert offsets(broker, "first") == 2200
    wait_until("the observer has all topics", lambda: topics_in(observer) >= {"first", "second", "third"}, SECONDS)

    broker.stop()
    controllers.stop()
    observer.stop()  # Kafka's tool fails at the zeros that a killed one leaves.
    log = batches_of(observer.partition_directory)
    for node_id in controllers.ports:
        kafkas = batches_of(controllers.partition(node_id))
        shared = range(max(min(log), min(kafkas)), min(max(log), max(kafkas)) + 1)
        assert [log.get(at) for at in shared] == [kafkas.get(at) for at in shared]
        assert any(batch for at, batch in kafkas.items() if at in shared)
    for path, kafkas_records in kafkas_dumps(sorted(observer.partition_directory.glob("*.log"))).items():
        assert our_dump(path) == kafkas_records


def follows(controllers: Controllers, asked: int, count: int) -> bool:
    """Whether so many voters have what is committed."""
    done = controllers.ask(asked, "metadata-quorum", "describe", "--replication", "--json")
    if done.returncode != 0:
        return False
    rows = [row for row in json.loads(done.stdout) if row["status"] in ("Leader", "Follower")]
    # They write a record every half second.
    return len(rows) == count and all(row["logEndOffset"] > 0 and row["lag"] <= 5 for row in rows)


OLDER = "4.0"


@pytest.mark.skipif(kafka_version() < (4, 1), reason="needs a metadata.version that is newer than 4.0")
@pytest.mark.parametrize("controllers", [((1, 2), OLDER)], indirect=True)
def test_metadata_version_is_raised_before_our_eyes(controllers: Controllers, observer: NodeProcess) -> None:
    """The observer's log has the old and the new level, and then what the controllers write with it."""
    asked = ["--bootstrap-controller", f"127.0.0.1:{controllers.ports[1]}"]
    release = ".".join(map(str, kafka_version()[:2]))
    wait_until("the observer has the old level", lambda: levels_in(observer) == {level_of(OLDER)}, SECONDS)

    def upgraded() -> bool:
        """It is refused until all controllers have registered."""
        return tool("FeatureCommand", *asked, "upgrade", "--release-version", release).returncode == 0

    wait_until("metadata.version is raised", upgraded, SECONDS)
    wait_until("the observer has the new level", lambda: level_of(release) in levels_in(observer), SECONDS)
    known = max(batches_of(observer.partition_directory))
    wait_until("the observer goes on", lambda: max(batches_of(observer.partition_directory)) > known, SECONDS)
    kafkas, ours = (
        features_of(said)
        for said in (tool("FeatureCommand", *asked, "describe"), controllers.ask(1, "features", "describe"))
    )
    assert ours.pop("metadata.version")[-1] == str(level_of(release)), "Kafka's tool has names for these levels"
    assert kafkas.pop("metadata.version")[-1].startswith(release)
    assert ours == kafkas


def features_of(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, ...]]:
    """The lowest, highest and finalized level of each feature."""
    lines = [re.findall(r"\w+: (\S+)", line) for line in done.stdout.splitlines()]
    return {name: tuple(levels) for name, *levels, _ in lines}


def level_of(release: str) -> int:
    """The level of metadata.version that Kafka's tool says this release has."""
    said = tool(
        "FeatureCommand", "--bootstrap-controller", "127.0.0.1:1", "version-mapping", "--release-version", release
    )
    found = re.search(r"metadata\.version=(\d+)", said.stdout)
    assert found is not None, said.stdout + said.stderr
    return int(found[1])
