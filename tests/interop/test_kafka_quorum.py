"""Our commands describe a quorum of Apache Kafka's own controllers, change its voters, and save its state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.command import kraft
from harness.kafka import kafka_version
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import random_uuid
from harness.waiting import wait_until
from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint
from kraft_trio.wire.metadata_frame import decode_metadata_frame
from tests.interop.kafka_broker import Broker
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers
from tests.interop.kafka_tools import tool


def test_its_voters_are_changed_whichever_controller_is_asked(controllers: Controllers) -> None:
    wait_until("Kafka's second controller observes", lambda: controllers.replicas(2) == ([1], [2]), JVM_SECONDS)
    features = controllers.ask(2, "features", "describe")
    assert "Feature: kraft.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\tFinalizedVersionLevel: 1" in (
        features.stdout
    ), features.stderr

    added = controllers.ask(2, "metadata-quorum", "add-controller", "-c", str(controllers.properties(2)))
    assert added.stdout.startswith("Added controller 2 "), added.stderr
    assert controllers.replicas(1) == ([1, 2], [])

    planned = controllers.ask(2, "metadata-quorum", "remove-controller", "-i", "1", "--dry-run")
    assert "MajorityAfter:          1 of 1" in planned.stdout, planned.stderr
    assert controllers.replicas(2) == ([1, 2], [])
    removed = controllers.ask(2, "metadata-quorum", "remove-controller", "-i", "1")
    assert removed.stdout.startswith("Removed KRaft controller 1 "), removed.stderr
    wait_until("the other controller leads alone", lambda: controllers.leads_alone(2), JVM_SECONDS)

    bootstrap = kraft(
        "dump-log", "--metadata", str(controllers.partition(1) / "00000000000000000000-0000000000.checkpoint")
    )
    has_metadata = '"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version"' in bootstrap.stdout
    assert has_metadata == (kafka_version() >= (4, 4)), "KIP-1170"

    again = controllers.ask(2, "metadata-quorum", "remove-controller", "-i", "1")
    assert (again.returncode, again.stdout) == (1, "")
    assert "VOTER_NOT_FOUND: no voter has id 1" in again.stderr
    upgraded = controllers.ask(
        2, "features", "upgrade", "--feature", "no.such.feature=1", "--feature", "kraft.version=1"
    )
    assert (upgraded.returncode, upgraded.stdout) == (1, "kraft.version is 1 already.\n")
    assert "Could not upgrade no.such.feature to 1. " in upgraded.stderr
    controllers.kill(1)
    retired = controllers.ask(2, "metadata-quorum", "remove-controller", "-i", "1", "--if-exists", "--unregister")
    if kafka_version() < (4, 4):
        assert "kraft: error: Failed to unregister controller 1: " in retired.stderr
        return
    assert retired.stdout.endswith("\nUnregistered KRaft controller 1\n"), retired.stderr
    forgotten = controllers.ask(2, "metadata-quorum", "remove-controller", "-i", "1", "--if-exists", "--unregister")
    assert "Controller ID 1 is not currently registered" in forgotten.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("controllers", [(1, 2, 3)], indirect=True)
def test_its_voters_are_reassigned_by_the_command(controllers: Controllers) -> None:
    """Kafka's leader does not know how, so the command takes each step; ids alone suffice."""
    wait_until("Kafka's controllers observe", lambda: controllers.replicas(2) == ([1], [2, 3]), JVM_SECONDS)

    def reassign(*arguments: str) -> list[str]:
        done = controllers.ask(2, "metadata-quorum", "reassign", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if line.startswith(("Added", "Removed", "Nothing"))]

    wait_until("the observers are registered", lambda: "Step2:" in planned(controllers, "1,2,3"), JVM_SECONDS)
    grown = reassign("--to", "1,2,3", "--wait")
    assert [line.split(" with")[0] for line in grown] == ["Added controller 2", "Added controller 3"]
    assert reassign("--cancel") == ["Nothing to do: there is no reassignment to cancel"]

    controllers.replace_disk(3)
    replaced = controllers.ask(2, "metadata-quorum", "replace", "-i", "3", "--timeout-ms", str(JVM_SECONDS * 1000))
    assert replaced.returncode == 0, replaced.stdout + replaced.stderr
    said = [line.split(" with")[0] for line in replaced.stdout.splitlines()]
    assert said[2:] == ["Removed KRaft controller 3", "Added controller 3"]
    # The leader lists the old incarnation as an observer for a while.
    assert (controllers.replicas(1) or [[]])[0] == [1, 2, 3]

    shrunk = reassign("--to", "2,3", "--wait")
    assert [line.split(" with")[0] for line in shrunk] == ["Removed KRaft controller 1"]
    wait_until("the others lead alone", lambda: (controllers.replicas(2) or [[]])[0] == [2, 3], JVM_SECONDS)


def planned(controllers: Controllers, target: str) -> str:
    return controllers.ask(2, "metadata-quorum", "reassign", "--to", target, "--dry-run").stdout


def test_its_state_is_saved_and_a_cluster_of_ours_begins_with_it(controllers: Controllers, tmp_path: Path) -> None:
    """At any moment: before there is a snapshot, and after."""
    wait_until("Kafka's second controller observes", lambda: controllers.replicas(2) == ([1], [2]), JVM_SECONDS)
    backups = tmp_path / "backups"
    backups.mkdir()
    first = save(controllers, backups / "first.checkpoint")
    assert f"of cluster {controllers.cluster_id}" in first
    wait_until("Kafka's leader takes a snapshot", lambda: controllers.checkpoints(1), JVM_SECONDS)
    taken = max(controllers.checkpoints(1))
    assert save(controllers, backups).startswith(f"Saved {backups}/")
    [file] = backups.glob("0*.checkpoint")
    assert file.name >= taken
    of_kafka = [
        record.value for record in read_checkpoint(controllers.checkpoints(1)[taken]) if isinstance(record, Record)
    ]
    assert values_in(file)[: len(of_kafka)] == of_kafka

    silent = controllers.ask(2, "metadata-quorum", "describe", "--snapshots")
    assert silent.returncode == 1
    assert "it does not report its own snapshots, as nodes of Apache Kafka's do not" in silent.stdout

    [port] = free_ports(1)
    properties = tmp_path / "node-4.properties"
    properties.write_text(
        f"node.id=4\nlisteners=CONTROLLER://127.0.0.1:{port}\nmetadata.log.dir={tmp_path / 'node-4'}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{port}\nkraft.state.machine=latest-by-key\n"
        "kraft.unsafe.kafka.directory=true\n"
    )
    refused = kraft("snapshot", "restore", str(file), "-c", str(properties), "--cluster-id", controllers.cluster_id)
    assert "this is the snapshot's own cluster" in refused.stderr
    restored = kraft("snapshot", "restore", str(file), "-c", str(properties), "--cluster-id", random_uuid())
    assert restored.returncode == 0, restored.stderr
    node = NodeProcess(4, tmp_path / "node-4", port)
    node.start()
    try:
        node.wait_until_listening()
        describe = ["metadata-quorum", "--bootstrap-controller", str(node.endpoint), "describe", "--status", "--json"]
        status = json.loads(kraft(*describe).stdout)
        assert (status["leaderId"], [voter["id"] for voter in status["currentVoters"]]) == (4, [4])
        assert status["leaderEpoch"] == 1001
        taken = kraft("snapshot", "take", "-c", str(properties))
        assert taken.returncode == 0, taken.stderr
        newest = max(node.partition_directory.glob("*.checkpoint"))
        assert newest.name > file.name
        assert values_in(newest) == values_in(file)
    finally:
        node.kill()


@pytest.mark.nightly
@pytest.mark.parametrize("controllers", [(1,)], indirect=True)
def test_what_is_saved_is_loaded_by_kafka(controllers: Controllers, tmp_path: Path) -> None:
    """A topic that was deleted behind the newest snapshot is gone, and the others are there."""
    wait_until("Kafka's controller leads", lambda: controllers.replicas(1) == ([1], []), JVM_SECONDS)
    broker = Broker(tmp_path, controllers)

    def topics(*arguments: str) -> bool:
        return tool("TopicCommand", "--bootstrap-server", broker.endpoint, *arguments).returncode == 0

    try:
        wait_until("a topic is created", lambda: topics("--create", "--topic", "kept"), JVM_SECONDS)
        assert topics("--create", "--topic", "gone")
        assert topics("--delete", "--topic", "gone")
    finally:
        broker.kill()
    file = tmp_path / "saved.checkpoint"
    asked = f"127.0.0.1:{controllers.ports[1]}"
    saved = kraft("snapshot", "save", "--bootstrap-controller", asked, str(file))
    assert saved.returncode == 0, saved.stderr
    controllers.kill(1)

    (tmp_path / "new").mkdir()
    new = Controllers(tmp_path / "new", (1,))
    new.write_properties(1)
    restored = kraft("snapshot", "restore", str(file), "-c", str(new.properties(1)), "--cluster-id", random_uuid())
    assert restored.returncode == 0, restored.stderr
    new.run(1)
    try:
        wait_until("Kafka takes a snapshot of its own", lambda: len(new.checkpoints(1)) > 1, JVM_SECONDS)
        newest = max(new.checkpoints(1))
        frames = [decode_metadata_frame(value or b"") for value in values_in(new.partition(1) / newest)]
        assert [frame.fields()["name"] for frame in frames if frame.name == "TOPIC_RECORD"] == ["kept"]
    finally:
        new.stop()


def save(controllers: Controllers, place: Path) -> str:
    saved = kraft("snapshot", "save", "--bootstrap-controller", f"127.0.0.1:{controllers.ports[2]}", str(place))
    assert saved.returncode == 0, saved.stderr
    return saved.stdout


def values_in(file: Path) -> list[bytes | None]:
    return [record.value for record in read_checkpoint(file.read_bytes()) if isinstance(record, Record)]
