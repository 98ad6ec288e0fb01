"""The image builds without network, tells whether its node lives, and three of it in Compose lose nothing.

Needs a Docker daemon with Compose, the base image, and the wheels of its dependencies (scripts/wheels).
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from harness.command import kraft
from harness.ports import free_ports
from harness.waiting import wait_until
from tests.deploy.test_examples import DEPLOY, REPOSITORY

BASE = os.environ.get("KRAFT_TEST_BASE_IMAGE", "python:3.13-slim")
WHEELS = REPOSITORY / "build" / "wheels"
UNHEALTHY_SECONDS = 120.0
"""Three checks of ten seconds must fail, each within five."""


def why_not() -> str | None:
    if shutil.which("docker") is None:
        return "docker is not installed"
    for command, without in (
        (["docker", "info"], "no Docker daemon answers"),
        (["docker", "compose", "version"], "docker compose is not installed"),
        (["docker", "image", "inspect", BASE], f"there is no image {BASE} (KRAFT_TEST_BASE_IMAGE names another base)"),
    ):
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return without
    return None if WHEELS.is_dir() else "there is no build/wheels (scripts/wheels)"


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


pytestmark = [pytest.mark.nightly, pytest.mark.acceptance]


def docker(*arguments: str, cwd: Path = REPOSITORY) -> str:
    done = subprocess.run(["docker", *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, _possible: None) -> Iterator[str]:
    wheels = tmp_path_factory.mktemp("image") / "wheels"
    shutil.copytree(WHEELS, wheels, ignore=shutil.ignore_patterns("kraft_trio-*"))
    own = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*own, "--wheel-dir", str(wheels), str(REPOSITORY)], check=True)
    name = f"kraft-trio:test-{os.getpid()}"
    file = ("--file", str(DEPLOY / "Dockerfile"))
    docker("build", "--network", "none", "--build-arg", f"BASE={BASE}", *file, "--tag", name, str(wheels))
    yield name
    docker("rmi", "--force", name)


@attrs.frozen
class Composition:
    """`deploy/compose/` with free ports, in a project of its own."""

    directory: Path
    project: str
    servers: list[str]

    def compose(self, *arguments: str) -> str:
        return docker("compose", "--project-name", self.project, *arguments, cwd=self.directory)

    def container(self, node_id: int) -> str:
        return f"{self.project}-node-{node_id}-1"

    def state(self, node_id: int) -> dict[str, Any]:
        [found] = json.loads(docker("inspect", self.container(node_id)))
        state: dict[str, Any] = found["State"]
        return state

    def wait_until_health(self, node_id: int, health: str) -> None:
        wait_until(
            f"node {node_id} is {health}", lambda: self.state(node_id)["Health"]["Status"] == health, UNHEALTHY_SECONDS
        )

    def status(self) -> str:
        return kraft("metadata-quorum", "--bootstrap-server", ",".join(self.servers), "describe", "--status").stdout

    def leader(self) -> int:
        return int(wait_until("a node leads", lambda: re.search(r"LeaderId: +(\d+)", self.status()))[1])


@pytest.fixture
def running(image: str, tmp_path: Path) -> Iterator[Composition]:
    directory = tmp_path / "compose"
    shutil.copytree(DEPLOY / "compose", directory)
    ports = free_ports(3)
    changes = {"kraft-trio:0.1.0": image, **{f"929{n}": str(port) for n, port in enumerate(ports, 1)}}
    for file in directory.iterdir():
        text = file.read_text()
        file.write_text(functools.reduce(lambda changed, name: changed.replace(name, changes[name]), changes, text))
    made = Composition(directory, f"kraft-test-{os.getpid()}", [f"127.0.0.1:{port}" for port in ports])
    try:
        made.compose("up", "--detach")
        wait_until("all voters have told their listeners", lambda: made.status().count("CLIENT://") == 3)
        yield made
    finally:
        made.compose("down", "--volumes")


class Writer(threading.Thread):
    """Appends numbers one by one, and keeps those that were acknowledged."""

    def __init__(self, servers: list[str]) -> None:
        super().__init__()
        self._servers = servers
        self._ends = threading.Event()
        self.acknowledged: dict[bytes, int] = {}

    def run(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._servers, acks="all", retries=1000, retry_backoff_ms=50)
        number = 0
        while not self._ends.is_set():
            number += 1
            value = b"%d" % number
            self.acknowledged[value] = producer.send("orders", value, partition=0).get(timeout=60).offset
        producer.close()

    def wait_for_more(self) -> None:
        wanted = len(self.acknowledged) + 100
        wait_until("100 more are acknowledged", lambda: len(self.acknowledged) >= wanted)

    def stop(self) -> None:
        self._ends.set()
        self.join()


def records(servers: list[str]) -> dict[bytes, int]:
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=5000)
    consumer.assign([TopicPartition("orders", 0)])
    found = {record.value: record.offset for record in consumer}
    consumer.close()
    return found


def test_a_quorum_survives_a_kill_and_a_lost_volume(running: Composition) -> None:
    writer = Writer(running.servers)
    writer.start()
    try:
        writer.wait_for_more()
        killed = running.leader()
        docker("kill", "--signal", "KILL", running.container(killed))
        writer.wait_for_more()
        docker("start", running.container(killed))
        writer.wait_for_more()
        lost = 1 + running.leader() % 3
        running.compose("rm", "--stop", "--force", f"node-{lost}", "format-1", "format-2", "format-3")
        docker("volume", "rm", f"{running.project}_node-{lost}")
        running.compose("up", "--detach")
        other = 1 + lost % 3
        controller = f"node-{other}:9093"
        replace = ("kraft", "metadata-quorum", "--bootstrap-controller", controller, "replace", "-i", str(lost))
        told = running.compose("exec", "-T", f"node-{other}", *replace)
        assert f"Added controller {lost} " in told
        writer.wait_for_more()
    finally:
        writer.stop()
    found = records(running.servers)
    assert {value: found.get(value) for value in writer.acknowledged} == writer.acknowledged


def test_health_tells_a_node_that_hangs_and_one_without_its_directory(running: Composition) -> None:
    leader = running.leader()
    running.wait_until_health(leader, "healthy")
    docker("kill", "--signal", "STOP", running.container(leader))
    running.wait_until_health(leader, "unhealthy")
    docker("kill", "--signal", "CONT", running.container(leader))
    running.wait_until_health(leader, "healthy")
    docker("exec", running.container(leader), "mv", "/var/lib/kraft/node", "/var/lib/kraft/away")
    running.wait_until_health(leader, "unhealthy")


def test_containers_run_as_a_user_cannot_write_their_image_and_end_well(running: Composition) -> None:
    leader = running.leader()
    name = running.container(leader)
    assert docker("exec", name, "id", "--user").strip() == "10001"
    written = subprocess.run(["docker", "exec", name, "touch", "/opt/kraft/x"], capture_output=True, check=False)
    assert b"Read-only file system" in written.stderr
    running.compose("stop")
    for node_id in (1, 2, 3):
        state = running.state(node_id)
        assert (state["ExitCode"], state["OOMKilled"], state["Status"]) == (0, False, "exited")
