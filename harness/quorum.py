"""A quorum of `kraft server start` processes on loopback."""

from __future__ import annotations

import io
import random
import secrets
import signal
import ssl
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from uuid import UUID

from harness.command import kraft
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.raw_connection import RawConnection
from harness.waiting import WAIT_SECONDS, wait_until
from kraft_trio.cli import run as run_command_line
from kraft_trio.protocol.types import OffsetAndEpoch, directory_id_to_text
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.directory.directory import random_directory_id
from kraft_trio.wire.api import DESCRIBE_QUORUM, PRODUCE
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.produce import ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode

TOPIC = "__cluster_metadata"
NO_TOPIC_ID = UUID(int=0)
PRODUCE_BY_NAME = 12
"""The newest version of Produce that names topics instead of giving their ids."""

QUICK = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
}
"""Timeouts that replace a lost leader within a second or two.

On a busy machine leadership may move at any time.
"""

STEADY = {"controller.quorum.fetch.timeout.ms": "60000"}
"""No pause of a process or of the whole machine is taken for a lost leader.

A leader that all voters follow stays until it is stopped or killed.  A killed one is missed no sooner than that.
"""

ASK_AGAIN = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.request_timed_out})
"""Answers to Produce that leave open whether the batch commits."""


def random_uuid() -> str:
    """Return a new id, as `kraft storage random-uuid` does."""
    return directory_id_to_text(random_directory_id(random.SystemRandom()))


class Quorum:
    """Nodes 1 to `voters` are the initial voters; the next `observers` nodes are formatted without voters.

    Nothing runs until `start`.  The owner ends the processes: see `kill_all` and `stop_all`.
    """

    def __init__(
        self,
        directory: Path,
        voters: int = 3,
        observers: int = 0,
        settings: Mapping[str, object] | None = None,
        *,
        timeouts: Mapping[str, str] = QUICK,
        static_voters: bool = False,
        is_steady: bool = False,
    ) -> None:
        """`static_voters` means kraft.version 0 and `controller.quorum.voters`.

        With `is_steady`, the timeouts are STEADY, and `start` returns when all nodes follow one leader.
        """
        ports = free_ports(voters + observers)
        self.settings = {**timeouts, **(STEADY if is_steady else {}), **(settings or {})}
        self._is_steady = is_steady
        self._static_voters = static_voters
        self.client_tls: ssl.SSLContext | None = None
        """How to ask nodes whose listeners have TLS."""
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
        if self._static_voters:
            properties["controller.quorum.voters"] = ",".join(
                f"{node_id}@{self.nodes[node_id].endpoint}" for node_id in self.voter_ids
            )
        node.write_properties(properties)

    def make_observer(self, node_id: int, directory: Path) -> NodeProcess:
        """Format one more observer, which the caller starts and stops; it does not join `nodes`."""
        [port] = free_ports(1)
        node = NodeProcess(node_id, directory, port)
        self.write_properties(node)
        self._format_within_this_process(node)
        return node

    def format(self, node: NodeProcess) -> subprocess.CompletedProcess[str]:
        """Run `kraft storage format` for a node, with the arguments of the first time."""
        return kraft(*self._format_command(node))

    def _format_within_this_process(self, node: NodeProcess) -> None:
        """Do the same without starting a process, which takes most of the time."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as complaints:
            assert run_command_line(self._format_command(node)) == 0, complaints.getvalue()

    def _format_command(self, node: NodeProcess) -> list[str]:
        if node.id not in self.voter_ids:
            voters = ["--no-initial-controllers"]
        else:
            voters = [] if self._static_voters else ["--initial-controllers", self.initial_controllers]
        return ["storage", "format", "-t", self.cluster_id, "-c", str(node.properties), *voters]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(str(node.endpoint) for node in self.nodes.values())

    def start(self, node_ids: Iterable[int] = ()) -> None:
        """Start these nodes, by default all, and wait until they listen.  Raises Overdue."""
        nodes = [self.nodes[node_id] for node_id in (node_ids or self.nodes)]
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_until_listening()
        if self._is_steady and not node_ids:
            # The first leader may lose its epoch at once to a voter that campaigned before it heard of it.
            wait_until("all nodes follow one leader", self._follow_one_leader)

    def _follow_one_leader(self) -> bool:
        """Whether that is what the nodes' logs say; a secured quorum would not tell a stranger."""
        told = set()
        for node in self.nodes.values():
            roles = [event for event in node.log_events() if event["event"] == "role"]
            told.add((roles[-1]["epoch"], roles[-1]["leader_id"]) if roles else (0, None))
        [(_, leader_id), *others] = told
        return leader_id is not None and not others

    def kill_all(self) -> None:
        """Send SIGKILL to all nodes at once, paused ones included."""
        for node in self.nodes.values():
            if node.running:
                node.send(signal.SIGKILL)
        for node in self.nodes.values():
            node.kill()

    def describe(self, node: NodeProcess) -> DescribeQuorumResponse | None:
        """Return the node's answer to DescribeQuorum, or None if it does not answer."""
        try:
            with RawConnection(node.endpoint, seconds=2, tls=self.client_tls) as connection:
                return connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
        except OSError:
            return None

    def described_by_leader(self, *, besides: int | None = None) -> tuple[NodeProcess, DescribeQuorumResponse]:
        """Return the leader, which knows its high watermark, and its answer.  Node `besides` is not asked.

        If several nodes say that they lead, it is the one with the newest epoch.  Raises Overdue.
        """

        def find() -> tuple[NodeProcess, DescribeQuorumResponse] | None:
            found = [
                (node, answer)
                for node in self.nodes.values()
                if node.running and node.id != besides and (answer := self.describe(node)) is not None
                if answer.partition_error is ErrorCode.none and answer.leader_id == node.id
            ]
            node, answer = max(found, key=lambda pair: pair[1].leader_epoch, default=(None, None))
            return (node, answer) if node and answer and answer.high_watermark >= 0 else None

        return wait_until("a leader", find)

    def leader(self, *, besides: int | None = None) -> NodeProcess:
        """Return the leader, other than node `besides`.  Raises Overdue if there is no leader for too long."""
        return self.described_by_leader(besides=besides)[0]

    def produce(self, values: Iterable[str], *, besides: int | None = None) -> int:
        """Commit the values as one batch, exactly once, by a leader other than node `besides`.

        Returns the first offset.  Asks again when leadership moves or no answer arrives.  Raises Overdue.
        """
        batch = encode_batch(
            [NewRecord(value.encode()) for value in values],
            timestamp_ms=0,
            producer_id=secrets.randbits(62),
            producer_epoch=0,
            base_sequence=0,
        )
        answer = self.produce_batch(batch, besides=besides)
        assert answer.error is ErrorCode.none, f"{answer.error.name}: {answer.error_message}"
        return answer.base_offset

    def produce_batch(self, batch: bytes, *, besides: int | None = None) -> ProducePartitionResponse:
        """Send a batch until a leader, other than node `besides`, commits or refuses it.  Raises Overdue.

        A batch with a producer id is committed at most once; without one, perhaps several times.
        """

        def answered() -> ProducePartitionResponse | None:
            try:
                answer = produce_batch(self.leader(besides=besides), batch, timeout_ms=8000)
            except OSError:
                return None
            return None if answer.error in ASK_AGAIN else answer

        return wait_until("a leader answers for a batch", answered)

    def wait_until_caught_up(self, node_ids: Iterable[int] = (), seconds: float = WAIT_SECONDS) -> int:
        """Wait until these nodes, by default all, have the leader's log and all of it is committed.

        Returns the log's end offset (exclusive).  Raises Overdue.
        """
        wanted = set(node_ids or self.nodes)
        return wait_until(f"nodes {sorted(wanted)} catch up", lambda: self.caught_up(wanted), seconds).offset

    def caught_up(self, node_ids: Iterable[int]) -> OffsetAndEpoch | None:
        """Return the end of the leader's log and the leader's epoch, or None.

        None means that some of these nodes do not have the whole log, or that not all of it is committed.
        """
        leader, answer = self.described_by_leader()
        # The voter counts, rather than a former incarnation of it that is still known as an observer.
        ends = {replica.key.id: replica.log_end_offset for replica in (*answer.observers, *answer.voters)}
        end = ends[leader.id]
        is_everywhere = answer.high_watermark == end and all(ends.get(node_id) == end for node_id in node_ids)
        return OffsetAndEpoch(end, answer.leader_epoch) if is_everywhere else None

    def wait_until_holds(self, node_id: int, end_offset: int) -> None:
        """Wait until the leader knows that the node has the log up to `end_offset` (exclusive).  Raises Overdue."""

        def holds() -> bool:
            _, answer = self.described_by_leader()
            replicas = (*answer.voters, *answer.observers)
            return any(replica.key.id == node_id and replica.log_end_offset >= end_offset for replica in replicas)

        wait_until(f"node {node_id} holds the log up to {end_offset}", holds)

    def assert_logs_equal(self) -> bytes:
        """Wait until all nodes have caught up, compare their logs byte for byte, and return the log.

        The logs are read again if a leader was elected or appended something meanwhile.
        """

        def read_at_rest() -> dict[int, bytes] | None:
            before = self.caught_up(self.nodes)
            logs = {node.id: node.log_bytes() for node in self.nodes.values()}
            return logs if before is not None and before == self.caught_up(self.nodes) else None

        logs = wait_until("all nodes have the leader's log", read_at_rest)
        first = logs[1]
        assert first
        for node_id, log in logs.items():
            assert log == first, f"the logs of nodes 1 and {node_id} differ: {len(first)} and {len(log)} bytes"
        return first

    def logs_for_report(self, characters: int = 6000) -> list[tuple[str, str]]:
        """Return a title and the end of the log for each node."""
        return [(f"node {node.id} ({node.log})", node.log_text()[-characters:]) for node in self.nodes.values()]


def produce_batch(node: NodeProcess, batch: bytes, *, timeout_ms: int = 25_000) -> ProducePartitionResponse:
    """Send bytes as the records of one Produce request with acks=all; return the partition's response."""
    request = ProduceRequest(-1, timeout_ms, (ProducePartition(TOPIC, NO_TOPIC_ID, 0, batch),))
    with RawConnection(node.endpoint) as connection:
        return connection.request(PRODUCE, request, PRODUCE_BY_NAME).partitions[0]
