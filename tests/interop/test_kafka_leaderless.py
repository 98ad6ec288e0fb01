"""`explain` of Kafka's controllers without a leader: who is missing, and what each of the others answered."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kafka import java
from harness.quorum import random_uuid
from harness.waiting import wait_until
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers

pytestmark = pytest.mark.nightly

IDS = (1, 2, 3)


class ThreeVoters(Controllers):
    """Three voters of Kafka's, static or in the log."""

    def format(self, node_id: int, *how: str) -> None:
        formatting = ["format", "-t", self.cluster_id, "-c", str(self.properties(node_id)), *how]
        subprocess.run(
            java("kafka.tools.StorageTool", *formatting), check=True, capture_output=True, timeout=JVM_SECONDS
        )

    def name_the_others(self, node_id: int, *, by_voters: bool) -> None:
        """Write `controller.quorum.voters` into the file, or the bootstrap servers."""
        kept = [line for line in self.properties(node_id).read_text().splitlines() if "quorum" not in line]
        voters = ",".join(f"{id}@127.0.0.1:{port}" for id, port in self.ports.items())
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        named = f"voters={voters}" if by_voters else f"bootstrap.servers={servers}"
        self.properties(node_id).write_text("\n".join([*kept, f"controller.quorum.{named}", ""]))

    def explain(self, *arguments: str) -> dict[str, tuple[str, str | None]]:
        """Text and command of each finding, by code."""
        told = self.ask(1, "metadata-quorum", "explain", "--json", *arguments).stdout.splitlines()[0]
        return {one["code"]: (one["text"], one["command"]) for one in json.loads(told)["findings"]}

    def has_leader(self) -> bool:
        """Whether one leads, and all have registered."""
        return set(self.explain()) == {"survival", "no-broker"}


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[ThreeVoters]:
    made = ThreeVoters(tmp_path, IDS)
    for node_id in IDS:
        made.write_properties(node_id)
    yield made
    made.stop()


def test_voters_in_the_log(controllers: ThreeVoters, tmp_path: Path) -> None:
    keys = ",".join(f"{id}@127.0.0.1:{port}:{random_uuid()}" for id, port in controllers.ports.items())
    for node_id in IDS:
        controllers.format(node_id, "--initial-controllers", keys)
        controllers.run(node_id)
    wait_until("they elect a leader", controllers.has_leader, JVM_SECONDS)
    for node_id in (2, 3):
        controllers.kill(node_id)
    wait_until("no majority is told", lambda: "no-majority" in controllers.explain(), JVM_SECONDS)
    text, command = controllers.explain()["no-majority"]
    assert "two of the voters 1, 2, 3 are needed, and one can be reached. Silent: 2 (" in text
    assert (command or "").startswith("bin/kafka-server-start.sh FILE")
    _, command = controllers.explain("-c", str(controllers.properties(1)))["no-majority"]
    assert command is not None
    assert "kraft server" not in command, "the file of a controller of Kafka's is given"
    for node_id in (2, 3):
        shutil.move(tmp_path / f"controller-{node_id}", tmp_path / f"kept-{node_id}")
        controllers.format(node_id, "--no-initial-controllers")
        controllers.run(node_id)
    wait_until("blank disks are told", lambda: "other-disks" in controllers.explain(), JVM_SECONDS)
    text, _ = controllers.explain()["other-disks"]
    assert "Mount those disks again. Leave node 1 as it is" in text
    for node_id in (2, 3):
        controllers.kill(node_id)
        shutil.rmtree(tmp_path / f"controller-{node_id}")
        shutil.move(tmp_path / f"kept-{node_id}", tmp_path / f"controller-{node_id}")
        controllers.run(node_id)
    wait_until("the disks of before elect a leader", controllers.has_leader, JVM_SECONDS)


def test_static_voters_that_the_files_no_longer_name(controllers: ThreeVoters) -> None:
    for node_id in IDS:
        controllers.name_the_others(node_id, by_voters=True)
        controllers.format(node_id)
        controllers.run(node_id)
    wait_until("they elect a leader", controllers.has_leader, JVM_SECONDS)
    for node_id in IDS:
        controllers.kill(node_id)
        controllers.name_the_others(node_id, by_voters=False)
        controllers.run(node_id)
    wait_until("no metadata is told", lambda: "no metadata" in str(controllers.explain()), JVM_SECONDS)
    text, _ = controllers.explain()["no-leader"]
    assert "if its file names no voters" in text
    text, _ = controllers.explain("-c", str(controllers.properties(1)))["unnamed-voters"]
    assert (
        "Node 1 knows no voters: kraft.version is 0, so only `controller.quorum.voters` in its file names them" in text
    )
    for node_id in IDS:
        controllers.kill(node_id)
        controllers.name_the_others(node_id, by_voters=True)
        controllers.run(node_id)
    wait_until("they elect a leader again", controllers.has_leader, JVM_SECONDS)
