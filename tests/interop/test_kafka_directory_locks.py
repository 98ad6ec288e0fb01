"""Kafka's processes and ours lock each other out of a directory, and nothing of ours starts on one of Kafka's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.command import kraft
from harness.kafka import java
from harness.node import NodeProcess
from harness.waiting import wait_until
from kraft_trio.cli.terminal.exit_codes import ExitCode
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("controllers", [(1,)], indirect=True)
def test_kafkas_directory_is_neither_rewritten_nor_started(controllers: Controllers, tmp_path: Path) -> None:
    properties, directory = str(controllers.properties(1)), tmp_path / "controller-1"
    wait_until("it leads", lambda: controllers.leads_alone(1), JVM_SECONDS)
    recover = ("storage", "recover", "-c", properties, "--cluster-id", controllers.cluster_id, "--unsafe-epoch", "1")
    for command in (recover, (*recover[:-2], "--unsafe-only-voter")):
        refused = kraft(*command)
        assert refused.returncode == 1
        by = rf"/\.lock: the lock is held already by process {controllers.process_id(1)} \(java kafka\.Kafka \S+\);"
        assert re.search(by, refused.stderr), refused.stderr
    started = kraft("server", "start", "-c", properties)
    assert "so the directory is that of a controller or broker: start Kafka there" in started.stderr

    controllers.kill(1)
    before = content(directory)
    started = kraft("server", "start", "-c", properties)
    assert started.returncode == ExitCode.CONFIGURATION
    assert "bin/kafka-server-start.sh" in started.stderr
    assert content(directory) == before


@pytest.mark.parametrize("controllers", [(1,)], indirect=True)
def test_kafka_does_not_start_beside_a_node_of_ours(controllers: Controllers, tmp_path: Path) -> None:
    controllers.kill(1)
    with controllers.properties(1).open("a") as file:
        file.write("kraft.witness=true\n")
    ours = NodeProcess(1, tmp_path / "controller-1", controllers.ports[1])
    ours.start()
    try:
        ours.wait_until_listening()
        kafka = subprocess.run(
            java("kafka.Kafka", str(controllers.properties(1)), heap="128m"),
            capture_output=True,
            text=True,
            timeout=JVM_SECONDS,
            check=False,
            cwd=tmp_path,
        )
        assert kafka.returncode != 0
        assert "Failed to acquire lock on file .lock" in kafka.stdout + kafka.stderr
    finally:
        ours.kill()
