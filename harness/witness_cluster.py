"""Two of Apache Kafka's own controllers, 1 and 2, and a witness of ours, 3."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import trio

from harness.command import kraft
from harness.kafka import HOME, java
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import random_uuid
from harness.segments import written_bytes
from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES, decode_meta_properties
from kraft_trio.wire.api import ADD_RAFT_VOTER, DESCRIBE_QUORUM, INCREMENTAL_ALTER_CONFIGS, REMOVE_RAFT_VOTER, Api
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.describe_quorum import CLUSTER_METADATA, DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.incremental_alter_configs import (
    BROKER,
    AlteredConfig,
    AlteredResource,
    IncrementalAlterConfigsRequest,
)
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

JVM_SECONDS: Final = 180.0
KAFKAS: Final = (1, 2)
WITNESS: Final = 3
NODES: Final = (*KAFKAS, WITNESS)
BROKERS: Final = (4, 5)
LISTENER: Final = "CONTROLLER"
MARK: Final = "witness-test-"
SET: Final = 0
"""The operation of IncrementalAlterConfigs that sets a key."""
BROKEN: Final = (OSError, NetworkError, ProtocolError, UnsupportedVersionError)


class WitnessCluster:
    """The owner calls `stop`.  `static` means kraft.version 0 and `controller.quorum.voters`."""

    def __init__(
        self,
        directory: Path,
        *,
        static: bool = False,
        founders: Collection[int] = NODES,
        settings: Mapping[str, object] | None = None,
        controller_settings: Mapping[str, object] | None = None,
        home: Path = HOME,
    ) -> None:
        """`founders` are the initial voters, if they are not static.  `settings` are further ones of the witness, and
        `controller_settings` of the controllers.

        `home` has the jars of the controllers.  It may be changed before they are started again.
        """
        self.home = home
        self._founders = founders
        self.static = static
        self.directory = directory
        self.cluster_id = random_uuid()
        self.ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.witness = NodeProcess(WITNESS, self.folder(WITNESS), self.ports[WITNESS])
        self._initial = ",".join(f"{id}@127.0.0.1:{self.ports[id]}:{random_uuid()}" for id in founders)
        for node_id in KAFKAS:
            own = {**self._settings(node_id), "log.dirs": self.folder(node_id), **(controller_settings or {})}
            self.properties(node_id).write_text("".join(f"{key}={value}\n" for key, value in own.items()))
        self.witness.write_properties({**self._settings(WITNESS), "kraft.witness": "true", **(settings or {})})

    def _settings(self, node_id: int) -> dict[str, object]:
        servers = ",".join(f"127.0.0.1:{self.ports[id]}" for id in NODES)
        voters = ",".join(f"{id}@127.0.0.1:{self.ports[id]}" for id in NODES)
        return {
            "process.roles": "controller",
            "node.id": node_id,
            "listeners": f"{LISTENER}://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": LISTENER,
            **({"controller.quorum.voters": voters} if self.static else {}),
            "controller.quorum.bootstrap.servers": servers,
            "metadata.log.dir": self.folder(node_id),
        }

    def folder(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}"

    def properties(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.properties"

    # Processes

    def start(self) -> None:
        """Format and run all three."""
        for node_id in NODES:
            if self.static:
                self.format(node_id)
            elif node_id in self._founders:
                self.format(node_id, "--initial-controllers", self._initial)
            else:
                self.format(node_id, "--no-initial-controllers")
        for node_id in NODES:
            self.run(node_id)

    def format(self, node_id: int, *how: str) -> None:
        """Raises RuntimeError."""
        arguments = ["format", "-t", self.cluster_id, "-c", str(self.properties(node_id)), *how]
        if node_id == WITNESS:
            completed = kraft("storage", *arguments)
        else:
            command = java("kafka.tools.StorageTool", *arguments, heap="128m", home=self.home)
            completed = subprocess.run(command, capture_output=True, text=True, timeout=JVM_SECONDS, check=False)
        if completed.returncode != 0:
            raise RuntimeError(f"node {node_id}: {completed.stdout}{completed.stderr}")

    def wipe(self, node_id: int) -> None:
        """Replace the disk of a stopped node by a blank one."""
        shutil.rmtree(self.folder(node_id))

    def run(self, node_id: int) -> None:
        """Start a process, without waiting for it."""
        if node_id == WITNESS:
            self.witness.start()
            return
        with (self.directory / f"node-{node_id}.log").open("ab") as log:
            command = java("kafka.Kafka", str(self.properties(node_id)), heap="256m", home=self.home)
            self._processes[node_id] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)

    def add_brokers(self, count: int = 1) -> None:
        """Format and run brokers of Kafka's.  Their processes are started, ended and stopped like the controllers'."""
        for node_id, port in zip(BROKERS[:count], free_ports(count), strict=True):
            self.ports[node_id] = port
            settings = {
                **self._settings(node_id),
                "process.roles": "broker",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": self.folder(node_id),
                "offsets.topic.replication.factor": 1,
            }
            self.properties(node_id).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            self.format(node_id, *(() if self.static else ("--no-initial-controllers",)))
            self.run(node_id)

    @property
    def broker_servers(self) -> str:
        """The addresses of the brokers, as clients take them."""
        return ",".join(f"127.0.0.1:{self.ports[node_id]}" for node_id in BROKERS if node_id in self.ports)

    def send(self, node_id: int, signal_number: signal.Signals) -> None:
        process = self.witness if node_id == WITNESS else self._processes[node_id]
        (process.send if isinstance(process, NodeProcess) else process.send_signal)(signal_number)

    def end(self, node_id: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal, and wait for the end."""
        self.send(node_id, signal_number)
        if node_id == WITNESS:
            self.witness.wait(JVM_SECONDS)
        else:
            self._processes.pop(node_id).wait(JVM_SECONDS)

    def is_running(self, node_id: int) -> bool:
        if node_id == WITNESS:
            return self.witness.running
        return node_id in self._processes and self._processes[node_id].poll() is None

    def stop(self) -> None:
        """Kill what runs, paused or not."""
        for node_id in self.ports:
            if self.is_running(node_id):
                self.end(node_id)

    def said(self, node_id: int) -> str:
        path = self.witness.log if node_id == WITNESS else self.directory / f"node-{node_id}.log"
        return path.read_text(errors="replace")

    # What clients see

    async def ask(
        self, node_id: int, api: Api[RequestT, ResponseT], request: RequestT, seconds: float = 3.0
    ) -> ResponseT | None:
        """The response of that node; None if there was none in time."""
        with trio.move_on_after(seconds):
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", self.ports[node_id])
                connection = await Connection.negotiated(stream, "witness-test", 1024 * 1024)
                try:
                    return await connection.request(api, request)
                finally:
                    await connection.aclose()
            except BROKEN:
                return None
        return None

    async def write(self, node_id: int, value: str, seconds: float = 3.0) -> bool:
        """Set a dynamic key of all brokers.  Only an active controller accepts it, and answers once it is committed."""
        change = AlteredResource(BROKER, "", (AlteredConfig("witness.test", SET, MARK + value),))
        request = IncrementalAlterConfigsRequest((change,))
        answer = await self.ask(node_id, INCREMENTAL_ALTER_CONFIGS, request, seconds)
        return answer is not None and [result.error for result in answer.results] == [ErrorCode.none]

    async def active(self, value: str, *, besides: int | None = None, within_s: float = JVM_SECONDS) -> int:
        """The controller that commits a write.  Raises TooSlowError."""
        with trio.fail_after(within_s):
            while True:
                for node_id in KAFKAS:
                    if node_id != besides and self.is_running(node_id) and await self.write(node_id, value):
                        return node_id
                await trio.sleep(0.1)

    async def describe(self, node_id: int) -> DescribeQuorumResponse | None:
        """What that node, as leader, knows about the quorum; None if it does not lead."""
        answer = await self.ask(node_id, DESCRIBE_QUORUM, DescribeQuorumRequest(CLUSTER_METADATA))
        if answer is None or answer.error != ErrorCode.none or answer.partition_error != ErrorCode.none:
            return None
        return answer

    async def until_all_follow(self, within_s: float = JVM_SECONDS) -> int:
        """Wait until every voter has what is committed now.  Returns the active controller.  Raises TooSlowError."""
        with trio.fail_after(within_s):
            while True:
                active = await self.active("all")
                described = await self.describe(active)
                if described is not None and len(described.voters) == len(NODES):
                    target = described.high_watermark
                    for _ in range(20):
                        described = await self.describe(active)
                        if described is None:
                            break
                        if all(voter.log_end_offset >= target for voter in described.voters):
                            return active
                        await trio.sleep(0.1)
                await trio.sleep(0.2)

    # Changes of voters

    def key_of(self, node_id: int) -> ReplicaKey:
        """Of the disk that it has now."""
        path = self.folder(node_id) / META_PROPERTIES
        return ReplicaKey(node_id, decode_meta_properties(str(path), path.read_bytes()).directory_id)

    async def remove_voter(self, active: int, key: ReplicaKey) -> str:
        """Returns the name of the error."""
        request = RemoveRaftVoterRequest(self.cluster_id, key.id, key.directory_id)
        answer = await self.ask(active, REMOVE_RAFT_VOTER, request, 10)
        return "no answer" if answer is None else answer.error.name

    async def add_voter(self, active: int, key: ReplicaKey) -> str:
        """Returns the name of the error."""
        endpoints = Endpoints({LISTENER: Endpoint("127.0.0.1", self.ports[key.id])})
        request = AddRaftVoterRequest(self.cluster_id, 10_000, key.id, key.directory_id, endpoints)
        answer = await self.ask(active, ADD_RAFT_VOTER, request, 10)
        return "no answer" if answer is None else answer.error.name

    # Logs

    def log_bytes(self, node_id: int) -> bytes:
        """The log on disk, segment after segment."""
        while True:
            paths = sorted((self.folder(node_id) / f"{CLUSTER_METADATA}-0").glob("*.log"))
            with suppress(FileNotFoundError):  # The node may delete the oldest meanwhile.
                return b"".join(map(written_bytes, paths))

    def batches(self, node_id: int) -> dict[int, bytes]:
        """The batches of the log on disk, by base offset."""
        return dict(_batches(self.log_bytes(node_id)))


def _batches(log: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while len(log) >= position + 12 and (size := int.from_bytes(log[position + 8 : position + 12], "big")) > 0:
        yield int.from_bytes(log[position : position + 8], "big"), log[position : position + 12 + size]
        position += 12 + size
