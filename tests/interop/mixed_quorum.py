"""A quorum of Kafka's TestRaftServer and of our nodes, which the test kills, stops and restarts one by one."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from harness.command import kraft
from harness.kafka import LIBRARIES, adapted, java, kafka_version
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import ASK_AGAIN, NO_TOPIC_ID, PRODUCE_BY_NAME, random_uuid
from harness.raw_connection import RawConnection
from harness.segments import written_bytes
from harness.waiting import wait_until
from kraft_trio.protocol.types import Endpoint
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.api import DESCRIBE_QUORUM, PRODUCE
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.interop.raft_server import CLUSTER_ID, SETTINGS, TOPIC

SECONDS = 180.0
"""Limit for what takes a few seconds on an idle machine."""

LONG_MS = 1_000_000
"""A timeout that no test waits for."""

PEER = Path(__file__).with_name("RaftPeer.java")
OURS, KAFKA = "ours", "kafka"


def compile_peer(directory: Path) -> Path:
    """Compile RaftPeer.java for this version of Kafka; returns the folder of the classes."""
    source = directory / PEER.name
    text = PEER.read_text()
    if kafka_version() < (4, 0):  # which have two classes of that name
        text = text.replace("org.apache.kafka.server.common.OffsetAndEpoch", "org.apache.kafka.raft.OffsetAndEpoch")
    source.write_text(adapted(text))
    command = ["javac", "-cp", f"{LIBRARIES}/*", "-d", str(directory), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return directory


class KafkaProcess:
    """A RaftPeer."""

    def __init__(self, classes: Path, properties: Path, directory_id: str) -> None:
        self._out, self._errors = properties.with_suffix(".out"), properties.with_suffix(".log")
        command = java("RaftPeer", str(properties), directory_id, heap="256m", classes=classes)
        with self._out.open("wb") as out, self._errors.open("ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors)
        self._asked = 0

    def _lines(self) -> list[str]:
        return [line for line in self._out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def leader(self) -> tuple[int, int]:
        """The leader that it knows, and the epoch; -1 for none."""
        told = [line.split() for line in self._lines() if line.startswith("leader ")]
        return (int(told[-1][1]), int(told[-1][2])) if told else (-1, -1)

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        self._asked += 1

        def answer() -> str | None:
            assert self.process.poll() is None, self._errors.read_text()[-3000:]
            found = [text for text in self._lines() if text.startswith(f"{self._asked} ")]
            return found[0].partition(" ")[2].strip() if found else None

        return wait_until(f"an answer to {line}", answer, SECONDS)


class MixedQuorum:
    """Nodes 1 to 3 vote from the beginning; `kinds` says what runs each node, and may change between its runs.

    Every directory is formatted by `kraft storage format`, with one file of properties for both programs.  `static`
    means kraft.version 0 and `controller.quorum.voters`.  `observers` are formatted without voters.  The owner calls
    `stop`.
    """

    def __init__(
        self,
        directory: Path,
        classes: Path,
        kinds: Mapping[int, str],
        *,
        static: bool = False,
        observers: Collection[int] = (),
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.kinds = dict(kinds)
        self.static = static
        self.voters = [node_id for node_id in kinds if node_id not in observers]
        self._settings = settings or {}
        self._classes = classes
        self._root = directory
        ports = dict(zip(kinds, free_ports(len(kinds)), strict=True))
        self.nodes = {node_id: NodeProcess(node_id, directory / f"node-{node_id}", ports[node_id]) for node_id in kinds}
        self.directory_ids = {node_id: random_uuid() for node_id in kinds}
        self._kafkas: dict[int, KafkaProcess] = {}
        for node_id in kinds:
            self.write_properties(node_id)
            self.format(node_id)

    def endpoint(self, node_id: int) -> Endpoint:
        return self.nodes[node_id].endpoint

    def servers(self, node_ids: Collection[int] = ()) -> str:
        return ",".join(str(self.endpoint(node_id)) for node_id in node_ids or self.nodes)

    def write_properties(self, node_id: int, **milliseconds: int) -> None:
        """Milliseconds of `fetch` and of `election` timeout; as Kafka's defaults by default."""
        voters = ",".join(f"{voter}@{self.endpoint(voter)}" for voter in self.voters)
        node = self.nodes[node_id]
        node.write_properties(
            {
                "node.id": node_id,
                "process.roles": "controller",
                "listeners": f"CONTROLLER://{node.endpoint}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": self.servers(),
                **({"controller.quorum.voters": voters} if self.static else {}),
                "controller.quorum.fetch.timeout.ms": milliseconds.get("fetch", 2000),
                "controller.quorum.election.timeout.ms": milliseconds.get("election", 1000),
                "metadata.log.dir": node.directory,
                "log.dirs": node.directory,
                **SETTINGS,
                **self._settings,
            }
        )

    def format(self, node_id: int) -> None:
        node = self.nodes[node_id]
        how = ["--no-initial-controllers"]
        if node_id in self.voters:
            initial = ",".join(f"{id}@{self.endpoint(id)}:{self.directory_ids[id]}" for id in self.voters)
            how = [] if self.static else ["--initial-controllers", initial]
        done = kraft("storage", "format", "-t", CLUSTER_ID, "-c", str(node.properties), *how)
        assert done.returncode == 0, done.stderr
        meta = (node.directory / "meta.properties").read_text().splitlines()
        [self.directory_ids[node_id]] = [line.partition("=")[2] for line in meta if line.startswith("directory.id=")]

    def replace_disk(self, node_id: int) -> None:
        """Format a stopped node again."""
        shutil.rmtree(self.nodes[node_id].directory)
        self.format(node_id)

    # Processes

    def run(self, *node_ids: int, **milliseconds: int) -> None:
        """Start processes with these timeouts, without waiting for them."""
        for node_id in node_ids:
            self.write_properties(node_id, **milliseconds)
            node = self.nodes[node_id]
            if self.kinds[node_id] == OURS:
                node.start()
            else:
                self._kafkas[node_id] = KafkaProcess(self._classes, node.properties, self.directory_ids[node_id])

    def is_running(self, node_id: int) -> bool:
        return self.nodes[node_id].running or (node_id in self._kafkas and self._kafkas[node_id].process.poll() is None)

    def end(self, node_id: int, how: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal, and wait for the end."""
        if self.nodes[node_id].running:
            self.nodes[node_id].stop(how, SECONDS)
        else:
            process = self._kafkas.pop(node_id).process
            process.send_signal(how)
            process.wait(SECONDS)
            assert process.stdin is not None
            process.stdin.close()

    def stop(self) -> None:
        for node_id in self.nodes:
            if self.is_running(node_id):
                self.end(node_id)

    # Leaders

    def _claim(self, node_id: int) -> int | None:
        """The epoch in which this node says that it leads."""
        if node_id in self._kafkas:
            leader, epoch = self._kafkas[node_id].leader()
            return epoch if leader == node_id else None
        try:
            with RawConnection(self.endpoint(node_id), seconds=5) as connection:
                answer = connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
        except OSError:
            return None
        leads = answer.partition_error is ErrorCode.none and answer.leader_id == node_id and answer.high_watermark >= 0
        return answer.leader_epoch if leads else None

    def leader(self, *, besides: int | None = None) -> int:
        """The node that leads in the newest epoch.  Raises Overdue."""

        def find() -> int | None:
            running = [node_id for node_id in self.nodes if node_id != besides and self.is_running(node_id)]
            claims = {node_id: epoch for node_id in running if (epoch := self._claim(node_id)) is not None}
            return max(claims, key=lambda node_id: claims[node_id], default=None)

        return wait_until("a leader", find, SECONDS)

    def let_lead(self, node_id: int, **milliseconds: int) -> None:
        """Stop other leaders and start them again, with these timeouts, until this node leads.  Raises Overdue."""

        def leads() -> bool:
            found = self.leader()
            if found == node_id:
                return True
            self.end(found, signal.SIGTERM)
            self.leader(besides=found)
            self.run(found, **milliseconds)
            return False

        wait_until(f"node {node_id} leads", leads, SECONDS)

    # Records

    def propose(self, node_id: int, value: str) -> None:
        """Have a leader append what it may not be able to commit, and wait until that is on its disk."""
        if node_id in self._kafkas:
            assert self._kafkas[node_id].ask(f"propose {value}") == "proposed"
        else:
            with RawConnection(self.endpoint(node_id)) as connection:
                connection.send_request(PRODUCE, _request(value), PRODUCE_BY_NAME)
                self.wait_until_on_disk(node_id, value)
        self.wait_until_on_disk(node_id, value)

    def wait_until_on_disk(self, node_id: int, value: str) -> None:
        wait_until(f"node {node_id} has {value}", lambda: value.encode() in self.log(node_id), SECONDS)

    def write(self, value: str) -> int:
        """Have any leader commit a value, perhaps more than once.  Returns that leader.  Raises Overdue."""

        def written() -> int | None:
            leader = self.leader()
            if leader in self._kafkas:
                return leader if self._kafkas[leader].ask(f"append {value}") == "committed" else None
            try:
                with RawConnection(self.endpoint(leader)) as connection:
                    [answer] = connection.request(PRODUCE, _request(value), PRODUCE_BY_NAME).partitions
            except OSError:
                return None
            assert answer.error in ASK_AGAIN | {ErrorCode.none}, answer
            return leader if answer.error is ErrorCode.none else None

        return wait_until(f"{value} is committed", written, SECONDS)

    def take_snapshot(self, node_id: int) -> Path:
        """Of all that the node knows to be committed, which is more than in its last one.  Raises Overdue."""
        before = set(self.checkpoints(node_id))

        def taken() -> bool:
            if node_id in self._kafkas:
                return self._kafkas[node_id].ask("snapshot").startswith("taken ")
            return kraft("snapshot", "take", "-c", str(self.nodes[node_id].properties)).returncode == 0

        wait_until(f"node {node_id} takes a snapshot", taken, SECONDS)
        [made] = set(self.checkpoints(node_id)) - before
        return self.partition(node_id) / made

    # Disks

    def partition(self, node_id: int) -> Path:
        return self.nodes[node_id].directory / f"{TOPIC}-0"

    def log(self, node_id: int) -> bytes:
        return log_of(self.partition(node_id))

    def batches(self, node_id: int) -> dict[int, bytes]:
        """The batches of the log, by base offset."""
        return batches_of(self.partition(node_id))

    def checkpoints(self, node_id: int) -> dict[str, bytes]:
        """The snapshots but for the one that the node was formatted with, by name."""
        found = self.partition(node_id).glob("*.checkpoint")
        return {path.name: path.read_bytes() for path in found if int(path.name[:20]) > 0}

    def wait_until_equal(self, *values: str) -> bytes:
        """Wait until all logs are byte for byte the same, and have the values.  Returns the log.  Raises Overdue."""

        def equal() -> bytes | None:
            first, *others = (self.log(node_id) for node_id in self.nodes)
            has_all = all(value.encode() in first for value in values)
            return first if has_all and all(other == first for other in others) else None

        return wait_until(f"all logs are equal and have {values}", equal, SECONDS)

    def said(self) -> str:
        """What all nodes have logged, for the report of a failure."""
        logs = [path for suffix in ("log", "out", "stderr") for path in sorted(self._root.glob(f"node-*.{suffix}"))]
        return "".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}\n" for path in logs)


def _request(value: str) -> ProduceRequest:
    batch = encode_batch([NewRecord(value.encode())], timestamp_ms=0)
    return ProduceRequest(-1, 8000, (ProducePartition(TOPIC, NO_TOPIC_ID, 0, batch),))


def log_of(partition: Path) -> bytes:
    return b"".join(written_bytes(path) for path in sorted(partition.glob("*.log")))


def batches_of(partition: Path) -> dict[int, bytes]:
    """The batches of the log in that folder, by base offset."""
    return dict(_batches(log_of(partition)))


def _batches(log: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while len(log) >= position + 12 and (size := int.from_bytes(log[position + 8 : position + 12], "big")) > 0:
        yield int.from_bytes(log[position : position + 8], "big"), log[position : position + 12 + size]
        position += 12 + size
