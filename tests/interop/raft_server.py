"""Kafka's raft client without a broker, and a node of ours whose log it can replicate."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness.command import kraft
from harness.kafka import java
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import STEADY, random_uuid
from harness.segments import written_bytes
from kraft_trio.protocol.types import Endpoint, ReplicaKey, directory_id_from_text, directory_id_to_text

JVM_SECONDS = 90
TOPIC = "__raft_performance_test"
SETTINGS = {"kraft.topic.name": TOPIC, "kraft.topic.id": "AAAAAAAAAAAAAAAAAAAAAg"}
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What TestRaftServer has built in."""


class RaftServer:
    """A TestRaftServer, which begins as an observer, or goes on where a killed node of ours was."""

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        node_id: int = 9,
        settings: Mapping[str, object] | None = None,
        *,
        in_place_of: NodeProcess | None = None,
    ) -> None:
        if in_place_of is None:
            [port] = free_ports(1)
            self.endpoint = Endpoint("127.0.0.1", port)
            self.directory = directory / "kafka"
            self.key = ReplicaKey(node_id, directory_id_from_text(random_uuid()))
        else:
            self.endpoint, self.directory, self.key = in_place_of.endpoint, in_place_of.directory, key_of(in_place_of)
        properties = directory / "kafka.properties"
        all_settings = {
            "process.roles": "controller",
            "node.id": self.key.id,
            "listeners": f"CONTROLLER://{self.endpoint}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": bootstrap,
            "log.dirs": self.directory,
            **(settings or {}),
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in all_settings.items()))
        self._log = directory / "kafka.out"
        options = ["--config", str(properties), "--replica-directory-id", directory_id_to_text(self.key.directory_id)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(java("kafka.tools.TestRaftServer", *options), stdout=log, stderr=log)

    def log_bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.directory.glob(f"{TOPIC}-0/*.log")))

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(JVM_SECONDS)


def start_ours(directory: Path, node_id: int = 1, bootstrap: str = "", clients: str = "") -> NodeProcess:
    """Format and start a node, alone as a voter or, with a bootstrap server, as an observer.

    `clients` is the address of a listener for clients besides.
    """
    [port] = free_ports(1)
    node = NodeProcess(node_id, directory / f"node-{node_id}", port)
    node.write_properties(
        {
            "node.id": node_id,
            "listeners": f"CONTROLLER://{node.endpoint}" + (f",CLIENT://{clients}" if clients else ""),
            "controller.quorum.bootstrap.servers": bootstrap or node.endpoint,
            "metadata.log.dir": node.directory,
            **STEADY,
            **SETTINGS,
        }
    )
    how = "--no-initial-controllers" if bootstrap else "--standalone"
    formatted = kraft("storage", "format", "-t", CLUSTER_ID, how, "-c", str(node.properties))
    assert formatted.returncode == 0, formatted.stderr
    node.start()
    node.wait_until_listening()
    return node


def our_bytes(node: NodeProcess) -> bytes:
    """What is in the node's log."""
    return b"".join(written_bytes(path) for path in sorted(node.directory.glob(f"{TOPIC}-0/*.log")))


def key_of(node: NodeProcess) -> ReplicaKey:
    """The key that the node was formatted with."""
    lines = (node.directory / "meta.properties").read_text().splitlines()
    [directory_id] = [line.partition("=")[2] for line in lines if line.startswith("directory.id=")]
    return ReplicaKey(node.id, directory_id_from_text(directory_id))
