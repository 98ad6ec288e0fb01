"""Two of Apache Kafka's own controllers, 1 and 2, and a witness of ours, 3."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

import trio

from harness.command import kraft
from harness.kafka import java
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import random_uuid
from harness.waiting import wait_until
from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.wire.api import INCREMENTAL_ALTER_CONFIGS
from kraft_trio.wire.apis.incremental_alter_configs import (
    BROKER,
    AlteredConfig,
    AlteredResource,
    IncrementalAlterConfigsRequest,
)
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

JVM_SECONDS: Final = 180
KAFKAS: Final = (1, 2)
WITNESS: Final = 3
SET: Final = 0
"""The operation of IncrementalAlterConfigs that sets a key."""
MARK: Final = "witness-test-"


class WitnessCluster:
    """The owner calls `stop`.  `static` means kraft.version 0 and `controller.quorum.voters`."""

    def __init__(self, directory: Path, *, static: bool, witness: bool = True) -> None:
        self.static = static
        self.directory = directory
        self.cluster_id = random_uuid()
        self.ports = dict(zip((*KAFKAS, WITNESS), free_ports(3), strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.witness = NodeProcess(WITNESS, directory / "node-3", self.ports[WITNESS])
        self._initial = ",".join(f"{id}@127.0.0.1:{port}:{random_uuid()}" for id, port in self.ports.items())
        for node_id in KAFKAS:
            self._write_properties(node_id)
        self.witness.write_properties({**self._settings(WITNESS), "kraft.witness": str(witness).lower()})

    def _settings(self, node_id: int) -> dict[str, object]:
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        voters = ",".join(f"{id}@127.0.0.1:{port}" for id, port in self.ports.items())
        return {
            "process.roles": "controller",
            "node.id": node_id,
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            **({"controller.quorum.voters": voters} if self.static else {}),
            "controller.quorum.bootstrap.servers": servers,
            "metadata.log.dir": self.folder(node_id),
        }

    def folder(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}"

    def properties(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.properties"

    def _write_properties(self, node_id: int) -> None:
        settings = {**self._settings(node_id), "log.dirs": self.folder(node_id)}
        self.properties(node_id).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    # Processes

    def start(self) -> None:
        """Format and run all three."""
        for node_id in KAFKAS:
            self.format_kafka(node_id, *self._founding())
        formatted = kraft(
            "storage", "format", "-t", self.cluster_id, "-c", str(self.witness.properties), *self._founding()
        )
        assert formatted.returncode == 0, formatted.stderr
        for node_id in (*KAFKAS, WITNESS):
            self.run(node_id)

    def _founding(self) -> tuple[str, ...]:
        return () if self.static else ("--initial-controllers", self._initial)

    def format_kafka(self, node_id: int, *how: str) -> None:
        arguments = ["format", "-t", self.cluster_id, "-c", str(self.properties(node_id)), *how]
        command = java("kafka.tools.StorageTool", *arguments, heap="128m")
        subprocess.run(command, check=True, capture_output=True, timeout=JVM_SECONDS)

    def wipe(self, node_id: int) -> None:
        """Replace the disk of a stopped node by a blank one."""
        shutil.rmtree(self.folder(node_id))

    def run(self, node_id: int) -> None:
        """Start a process, without waiting for it."""
        if node_id == WITNESS:
            self.witness.start()
            return
        with (self.directory / f"node-{node_id}.log").open("ab") as log:
            command = java("kafka.Kafka", str(self.properties(node_id)), heap="256m")
            self._processes[node_id] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)

    def end(self, node_id: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal, and wait for the end."""
        if node_id == WITNESS:
            self.witness.stop(signal_number, JVM_SECONDS)
            return
        process = self._processes.pop(node_id)
        process.send_signal(signal_number)
        process.wait(JVM_SECONDS)

    def is_running(self, node_id: int) -> bool:
        if node_id == WITNESS:
            return self.witness.running
        return node_id in self._processes and self._processes[node_id].poll() is None

    def stop(self) -> None:
        for node_id in KAFKAS:
            if node_id in self._processes:
                self.end(node_id)
        self.witness.kill()

    # What clients see

    async def write(self, value: str, asked: int, seconds: float = 3.0) -> ErrorCode | None:
        """Set a dynamic key of all brokers.  Only an active controller accepts it, once it is committed."""
        change = AlteredResource(BROKER, "", (AlteredConfig("witness.test", SET, MARK + value),))
        with trio.move_on_after(seconds):
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", self.ports[asked])
                connection = await Connection.negotiated(stream, "witness-test", 1024 * 1024)
                try:
                    request = IncrementalAlterConfigsRequest((change,))
                    [result] = (await connection.request(INCREMENTAL_ALTER_CONFIGS, request)).results
                    return result.error
                finally:
                    await connection.aclose()
            except (OSError, NetworkError, ProtocolError, UnsupportedVersionError):
                return None
        return None

    def active_controller(self, value: str) -> int:
        """The controller that commits a write."""

        def ask() -> int | None:
            for node_id in KAFKAS:
                if self.is_running(node_id) and trio.run(self.write, value, node_id) == ErrorCode.none:
                    return node_id
            return None

        return wait_until(f"an active controller takes {value}", ask, JVM_SECONDS, 0.1)

    def log_bytes(self, node_id: int) -> bytes:
        """The log on disk, segment after segment."""
        paths = sorted((self.folder(node_id) / "__cluster_metadata-0").glob("*.log"))
        return b"".join(path.read_bytes() for path in paths)

    def said(self, node_id: int) -> str:
        path = self.witness.log if node_id == WITNESS else self.directory / f"node-{node_id}.log"
        return path.read_text(errors="replace")
