"""Kafka's Java Admin and kafka-reassign-partitions reassign the voters (KIP-642)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.kafka import java
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import Quorum
from harness.waiting import wait_until
from kraft_trio.protocol.types import directory_id_to_text
from tests.acceptance.client_listeners import add_client_listeners
from tests.interop.kafka_tools import tool

pytestmark = pytest.mark.nightly

CONSOLE = Path(__file__).with_name("AdminConsole.java")
OURS = "__cluster_metadata-0"
NOTHING_LISTED = "{}"
LONG_FETCH_TIMEOUT = {"controller_quorum_fetch_timeout_ms": "600000"}
"""Each node counts as one that fetches, however busy the machine is."""
REASSIGN = "reassign.ReassignPartitionsCommand"


class JavaAdmin:
    """One Java process with one Admin."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, *words: object) -> str:
        """The result of a call, or the name of the exception and its message."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().rstrip("\n")

    def reassigns_to(self, ids: str) -> None:
        assert self("reassign", OURS, ids) == "done"


@contextmanager
def java_admin(*settings: str) -> Iterator[JavaAdmin]:
    command = java(str(CONSOLE), *settings, heap="256m")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield JavaAdmin(process)
        finally:
            process.kill()


def voters(quorum: Quorum) -> list[int]:
    return [voter.key.id for voter in quorum.described_by_leader()[1].voters]


def wait_until_over(quorum: Quorum, *ids: int) -> None:
    def over() -> bool:
        described = quorum.described_by_leader()[1]
        return [voter.key.id for voter in described.voters] == [*ids] and not described.target_voters

    wait_until(f"the voters are {ids}", over)


def test_java_swaps_shrinks_and_grows_the_voters(make_quorum: Any) -> None:
    """Asked through any node; Admin finds the leaders."""
    quorum: Quorum = make_quorum(3, 3)
    clients = add_client_listeners(quorum)
    quorum.start()
    quorum.wait_until_caught_up()
    with java_admin(f"bootstrap.servers={clients[1]}") as admin:
        assert admin("nodes") == "[1, 2, 3, 4, 5, 6]"
        for ids in ((4, 5, 6), (4,), (1, 4, 5)):
            admin.reassigns_to(",".join(map(str, ids)))
            wait_until_over(quorum, *ids)
        assert admin("list") == NOTHING_LISTED
    with java_admin(f"bootstrap.controllers={quorum.nodes[6].endpoint}") as admin:
        assert admin("nodes") == "[1, 2, 3, 4, 5, 6]"
        admin.reassigns_to("1,2,3")
        wait_until_over(quorum, 1, 2, 3)


def advertise_nowhere(node: NodeProcess, clients: str) -> None:
    """Let a node fetch and serve clients, but tell the quorum an address where nobody listens."""
    [unused] = free_ports(1)
    with node.properties.open("a") as file:
        file.write(f"advertised.listeners=CONTROLLER://127.0.0.1:{unused},CLIENT://{clients}\n")


# What is refused, and listed while it waits


@pytest.fixture(scope="module")
def unfit(make_module_quorum: Any) -> tuple[Quorum, dict[int, str]]:
    """Three voters and two observers: others cannot reach 4, and 5 is a broker, which tells no listener."""
    quorum: Quorum = make_module_quorum(3, 2, **LONG_FETCH_TIMEOUT)
    clients = add_client_listeners(quorum)
    advertise_nowhere(quorum.nodes[4], clients[4])
    broker = quorum.nodes[5].properties
    broker.write_text(broker.read_text().replace("process.roles=controller", "process.roles=broker"))
    quorum.start()
    quorum.wait_until_caught_up()
    return quorum, clients


@pytest.fixture(scope="module", params=["bootstrap.servers", "bootstrap.controllers"])
def admin(unfit: tuple[Quorum, dict[int, str]], request: pytest.FixtureRequest) -> Iterator[JavaAdmin]:
    """It begins at a node that does not lead."""
    quorum, clients = unfit
    follower = next(id for id in (1, 2, 3) if id != quorum.leader().id)
    nodes = {"bootstrap.servers": clients[follower], "bootstrap.controllers": quorum.nodes[follower].endpoint}
    with java_admin(f"{request.param}={nodes[request.param]}") as made:
        yield made


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (("reassign", OURS, "1,2,9"), "InvalidReplicaAssignmentException: target: replica 9 is unknown to the leader"),
        (("reassign", OURS, "1,1"), "InvalidReplicaAssignmentException: target: voters 1, 1: expected each id once"),
        (("reassign", OURS, "nobody"), "IllegalArgumentException: "),
        (("exchange", OURS, "1,2"), "InvalidReplicationFactorException: target: 2 voters, expected 3"),
        (("reassign", "__cluster_metadata-1", "1,2"), "UnknownTopicOrPartitionException: "),
        (("reassign", "other-0", "1,2"), "UnknownTopicOrPartitionException: "),
        (("cancel", OURS), "NoReassignmentInProgressException: there is no reassignment to cancel"),
    ],
)
def test_java_names_each_refusal(
    unfit: tuple[Quorum, dict[int, str]], admin: JavaAdmin, call: tuple[str, ...], refusal: str
) -> None:
    assert admin(*call).startswith(refusal)
    assert voters(unfit[0]) == [1, 2, 3]


def test_java_hears_that_a_node_has_told_no_listener(unfit: tuple[Quorum, dict[int, str]], admin: JavaAdmin) -> None:
    refusal = admin("reassign", OURS, "1,2,5")
    assert refusal.startswith("InvalidReplicaAssignmentException: target: replica 5-")
    assert refusal.endswith("has told the leader no listener that voters could use")


def test_java_lists_and_cancels_what_waits(unfit: tuple[Quorum, dict[int, str]], admin: JavaAdmin) -> None:
    quorum, _ = unfit
    admin.reassigns_to("1,2,3,4")
    assert admin("list") == (
        f"{{{OURS}=PartitionReassignment(replicas=[1, 2, 3, 4], addingReplicas=[4], removingReplicas=[])}}"
    )
    voter = quorum.described_by_leader()[1].voters[0].key
    refusal = admin("remove", voter.id, directory_id_to_text(voter.directory_id))
    assert refusal.startswith("ReassignmentInProgressException: the voters are being reassigned to 1-")
    assert admin("cancel", OURS) == "done"
    assert admin("list") == NOTHING_LISTED
    assert voters(quorum) == [1, 2, 3]


def test_java_hears_that_an_id_has_two_incarnations(make_quorum: Any, tmp_path: Path) -> None:
    quorum: Quorum = make_quorum(3, 1, is_steady=True)
    quorum.start()
    second = quorum.make_observer(4, tmp_path / "second")
    second.start()
    try:
        wait_until("both fetch", lambda: len(quorum.described_by_leader()[1].observers) == 2)
        with java_admin(f"bootstrap.controllers={quorum.nodes[1].endpoint}") as admin:
            refusal = admin("reassign", OURS, "1,2,4")
        assert refusal.startswith("InvalidReplicaAssignmentException: target: replica 4 has 2 incarnations that fetch")
    finally:
        second.kill()


# Without a leader, and with static voters


def test_java_waits_for_a_leader_as_long_as_it_may(make_quorum: Any) -> None:
    """NOT_CONTROLLER makes Admin look for the leader again."""
    quorum: Quorum = make_quorum(3)
    quorum.start([1])
    limits = ("default.api.timeout.ms=3000", "request.timeout.ms=1000")
    with java_admin(f"bootstrap.controllers={quorum.nodes[1].endpoint}", *limits) as admin:
        assert admin("reassign", OURS, "1,2").startswith("TimeoutException: ")
        quorum.start([2])
        quorum.leader()
        assert admin("reassign", OURS, "1,2,3") == "done"


def test_java_hears_that_static_voters_stay(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, voters=1, static_voters=True)
    quorum.start()
    try:
        quorum.leader()
        with java_admin(f"bootstrap.controllers={quorum.nodes[1].endpoint}") as admin:
            refusal = admin("reassign", OURS, "1")
        assert refusal == "UnsupportedVersionException: kraft.version is 0: its voters cannot be changed"
    finally:
        quorum.kill_all()


# The tool


class Tool:
    """kafka-reassign-partitions with one file for our partition."""

    def __init__(self, clients: str, file: Path, replicas: list[int]) -> None:
        partition = {"topic": "__cluster_metadata", "partition": 0, "replicas": replicas}
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        self._clients = clients
        self._file = ["--reassignment-json-file", str(file)]

    def __call__(self, action: str, *options: str) -> str:
        """What an action prints that succeeds."""
        file = [] if action == "--list" else self._file
        completed = tool(REASSIGN, "--bootstrap-server", self._clients, action, *file, *options)
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return completed.stdout


def test_kafka_reassign_partitions_brings_other_voters_in(make_quorum: Any, tmp_path: Path) -> None:
    """The last newcomer is advertised where nobody listens until it is restarted."""
    quorum: Quorum = make_quorum(3, 3, controller_quorum_fetch_timeout_ms="5000")
    clients = add_client_listeners(quorum)
    last = quorum.nodes[6]
    reachable = last.properties.read_text()
    advertise_nowhere(last, clients[6])
    quorum.start()
    quorum.wait_until_caught_up()
    reassign = Tool(clients[6], tmp_path / "target.json", [4, 5, 6])
    assert f"Successfully started partition reassignment for {OURS}" in reassign("--execute")
    wait_until("nodes 4 and 5 are voters", lambda: {4, 5} <= set(voters(quorum)))
    assert ",4,5,6. adding: 6. removing: " in reassign("--list")
    assert f"Reassignment of partition {OURS} is still in progress." in reassign("--verify")
    last.kill()
    last.properties.write_text(reachable)
    quorum.start([6])
    wait_until_over(quorum, 4, 5, 6)
    assert reassign("--list").strip() == "No partition reassignments found."
    verified = reassign("--verify")
    assert f"Reassignment of partition {OURS} is completed." in verified
    assert "Clearing topic-level throttles on topic __cluster_metadata" in verified


def test_kafka_reassign_partitions_cancels(unfit: tuple[Quorum, dict[int, str]], tmp_path: Path) -> None:
    quorum, clients = unfit
    reassign = Tool(clients[1], tmp_path / "target.json", [1, 2, 4])
    reassign("--execute")
    assert f"Successfully cancelled partition reassignment for: {OURS}" in reassign("--cancel")
    assert voters(quorum) == [1, 2, 3]


def test_kafka_reassign_partitions_cannot_throttle(unfit: tuple[Quorum, dict[int, str]], tmp_path: Path) -> None:
    quorum, clients = unfit
    reassign = Tool(clients[1], tmp_path / "target.json", [1, 2])
    with pytest.raises(AssertionError, match="there is no dynamic configuration: change the nodes' properties files"):
        reassign("--execute", "--throttle", "1000")
    assert voters(quorum) == [1, 2, 3]
