"""Our commands and client describe a quorum of Apache Kafka's own controllers, and change its voters.

Optional: KAFKA_HOME names an unpacked Kafka of 4.0 or newer, of which `libs/` is used.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.node_process import free_ports, kraft
from tests.acceptance.quorum import random_uuid
from tests.acceptance.waiting import wait_until

LIBRARIES = Path(os.environ.get("KAFKA_HOME", "/nowhere")) / "libs"
JVM_SECONDS = 90

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed"),
    pytest.mark.skipif(not any(LIBRARIES.glob("kafka_2.13-*.jar")), reason="KAFKA_HOME names no Kafka"),
]


class Controllers:
    """Two controllers of Kafka's: 1 is the only voter, 2 observes."""

    def __init__(self, directory: Path) -> None:
        self.cluster_id = random_uuid()
        self.ports = dict(zip((1, 2), free_ports(2), strict=True))
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []

    def properties(self, node_id: int) -> Path:
        return self._directory / f"controller-{node_id}.properties"

    def start(self) -> None:
        for node_id, port in self.ports.items():
            settings = {
                "process.roles": "controller",
                "node.id": node_id,
                "listeners": f"CONTROLLER://127.0.0.1:{port}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.ports[1]}",
                "metadata.log.dir": self._directory / f"controller-{node_id}",
                "log.dirs": self._directory / f"controller-{node_id}",
            }
            self.properties(node_id).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            how = "--standalone" if node_id == 1 else "--no-initial-controllers"
            formatting = ["format", "-t", self.cluster_id, "-c", str(self.properties(node_id)), how]
            subprocess.run(
                java("kafka.tools.StorageTool", *formatting), check=True, capture_output=True, timeout=JVM_SECONDS
            )
            with (self._directory / f"controller-{node_id}.log").open("wb") as log:
                command = java("kafka.Kafka", str(self.properties(node_id)))
                self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory))

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(JVM_SECONDS)

    def ask(self, asked: int, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return kraft(command, "--bootstrap-controller", f"127.0.0.1:{self.ports[asked]}", *arguments)

    def replicas(self, asked: int) -> tuple[list[int], list[int]] | None:
        """The ids of the voters and of the observers; None while nobody says."""
        completed = self.ask(asked, "metadata-quorum", "describe", "--status", "--json")
        if completed.returncode != 0:
            return None
        described = json.loads(completed.stdout)
        assert described["clusterId"] == self.cluster_id
        return tuple([replica["id"] for replica in described[kind]] for kind in ("currentVoters", "currentObservers"))


def java(main: str, *arguments: str) -> list[str]:
    return ["java", "-Xmx512m", "-cp", f"{LIBRARIES}/*", main, *arguments]


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    made = Controllers(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


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
    wait_until("the other controller leads alone", lambda: (controllers.replicas(2) or [[]])[0] == [2], JVM_SECONDS)
