"""A quorum of `kraft server start` processes: formatted, started, asked for its leader, killed and compared."""

from __future__ import annotations

import io
import random
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from uuid import UUID

from harness.node import NodeProcess, kraft
from harness.ports import free_ports
from harness.raw_connection import RawConnection
from harness.waiting import wait_until
from kraft_trio.cli import run as run_command_line
from kraft_trio.protocol.types import directory_id_to_text
from kraft_trio.storage.batch import NewRecord, encode_batch
from kraft_trio.storage.directory import random_directory_id
from kraft_trio.wire.api import DESCRIBE_QUORUM, PRODUCE
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse, QuorumReplica
from kraft_trio.wire.apis.produce import ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode

TOPIC = "__cluster_metadata"
NO_TOPIC_ID = UUID(int=0)
PRODUCE_BY_NAME = 12
"""The newest version of Produce in which a topic goes by its name."""

QUICK = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
}
"""Timeouts with which a lost leader is replaced in a second or two."""


def random_uuid() -> str:
    """What `kraft storage random-uuid` prints."""
    return directory_id_to_text(random_directory_id(random.SystemRandom()))


class Quorum:
    """Nodes 1 to `voters` are the first voters; the `observers` that follow them are formatted without any.

    Nothing runs until `start`.  Whoever makes one calls `kill_all` in the end.
    """

    def __init__(
        self, directory: Path, voters: int = 3, observers: int = 0, settings: Mapping[str, str] | None = None
    ) -> None:
        ports = free_ports(voters + observers)
        self.settings = {**QUICK, **(settings or {})}
        self.nodes = {
            node_id: NodeProcess(node_id, directory / f"node-{node_id}", port) for node_id, port in enumerate(ports, 1)
        }
        self.voter_ids = range(1, voters + 1)
        self.cluster_id = random_uuid()
        self.initial_controllers = ",".join(
            f"{node_id}@{self.nodes[node_id].endpoint}:{random_uuid()}" for node_id in self.voter_ids
        )
        for node in self.nodes.values():
            self.write_properties(node)
            self._format_within_this_process(node)

    def write_properties(self, node: NodeProcess) -> None:
        properties = {
            "node.id": node.id,
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{node.endpoint}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": self.bootstrap_servers,
            "metadata.log.dir": node.directory,
            **self.settings,
        }
        node.properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def format(self, node: NodeProcess) -> subprocess.CompletedProcess[str]:
        """Run `kraft storage format` for a node, as it was or will be formatted."""
        return kraft(*self._format_command(node))

    def _format_within_this_process(self, node: NodeProcess) -> None:
        """The same without the start of a process, which is most of what formatting takes."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as complaints:
            assert run_command_line(self._format_command(node)) == 0, complaints.getvalue()

    def _format_command(self, node: NodeProcess) -> list[str]:
        is_voter = node.id in self.voter_ids
        voters = ["--initial-controllers", self.initial_controllers] if is_voter else ["--no-initial-controllers"]
        return ["storage", "format", "-t", self.cluster_id, "-c", str(node.properties), *voters]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(str(node.endpoint) for node in self.nodes.values())

    def start(self, node_ids: Iterable[int] = ()) -> None:
        """Start those nodes, by default all, and wait until they listen."""
        nodes = [self.nodes[node_id] for node_id in (node_ids or self.nodes)]
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_until_listening()

    def kill_all(self) -> None:
        """SIGKILL to all at the same time, paused ones included."""
        for node in self.nodes.values():
            if node.running:
                node.send(signal.SIGKILL)
        for node in self.nodes.values():
            node.kill()

    def describe(self, node: NodeProcess) -> DescribeQuorumResponse | None:
        """What the node answers to DescribeQuorum; None when it does not answer."""
        try:
            with RawConnection(node.endpoint, seconds=2) as connection:
                return connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
        except OSError:
            return None

    def described_by_leader(self, *, besides: int | None = None) -> tuple[NodeProcess, DescribeQuorumResponse]:
        """The leader that knows its high watermark, other than node `besides`, and what it says.  Raises Overdue."""

        def find() -> tuple[NodeProcess, DescribeQuorumResponse] | None:
            for node in self.nodes.values():
                if node.running and node.id != besides and (answer := self.describe(node)) is not None:
                    is_leader = answer.partition_error is ErrorCode.none and answer.leader_id == node.id
                    if is_leader and answer.high_watermark >= 0:
                        return node, answer
            return None

        return wait_until("a leader", find)

    def leader(self, *, besides: int | None = None) -> NodeProcess:
        """The leader, other than node `besides`.  Raises Overdue when there is none for too long."""
        return self.described_by_leader(besides=besides)[0]

    def produce(self, values: Iterable[str], leader: NodeProcess | None = None) -> int:
        """Have the values committed as one batch, without an idempotent producer; the offset of the first."""
        batch = encode_batch([NewRecord(value.encode()) for value in values], timestamp_ms=0)
        answer = produce_batch(leader or self.leader(), batch)
        assert answer.error is ErrorCode.none, f"{answer.error.name}: {answer.error_message}"
        return answer.base_offset

    def wait_until_caught_up(self, node_ids: Iterable[int] = ()) -> int:
        """Wait until those nodes, by default all, have the leader's whole log and it is committed; its end."""
        wanted = set(node_ids or self.nodes)

        def caught_up() -> int | None:
            leader, answer = self.described_by_leader()
            replicas: dict[int, QuorumReplica] = {
                replica.key.id: replica for replica in (*answer.voters, *answer.observers)
            }
            end = replicas[leader.id].log_end_offset
            others = {node_id for node_id, replica in replicas.items() if replica.log_end_offset == end}
            return end if answer.high_watermark == end and wanted <= others else None

        return wait_until(f"nodes {sorted(wanted)} catch up", caught_up)

    def wait_until_holds(self, node_id: int, end_offset: int) -> None:
        """Wait until the leader knows that the node has the log up to `end_offset` (exclusive).  Raises Overdue."""

        def holds() -> bool:
            _, answer = self.described_by_leader()
            replicas = (*answer.voters, *answer.observers)
            return any(replica.key.id == node_id and replica.log_end_offset >= end_offset for replica in replicas)

        wait_until(f"node {node_id} holds the log up to {end_offset}", holds)

    def assert_logs_equal(self) -> bytes:
        """All nodes have caught up and nobody writes: their logs are equal byte for byte.  The log."""
        self.wait_until_caught_up()
        logs = {node.id: node.log_bytes() for node in self.nodes.values()}
        first = logs[1]
        assert first
        for node_id, log in logs.items():
            assert log == first, f"the logs of nodes 1 and {node_id} differ: {len(first)} and {len(log)} bytes"
        return first

    def logs_for_report(self, characters: int = 6000) -> list[tuple[str, str]]:
        """A title and the end of each node's log."""
        return [(f"node {node.id} ({node.log})", node.log_text()[-characters:]) for node in self.nodes.values()]


def produce_batch(node: NodeProcess, batch: bytes, *, timeout_ms: int = 8000) -> ProducePartitionResponse:
    """Send bytes as the records of one Produce request with acks=all; the answer for the partition."""
    request = ProduceRequest(-1, timeout_ms, (ProducePartition(TOPIC, NO_TOPIC_ID, 0, batch),))
    with RawConnection(node.endpoint) as connection:
        return connection.request(PRODUCE, request, PRODUCE_BY_NAME).partitions[0]
