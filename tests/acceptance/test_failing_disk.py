"""A disk that really returns EIO: the node ends, saying what failed, and trusts afterwards what the device gives it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from harness.command import kraft
from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.waiting import wait_until
from kraft_trio.errors import StorageFailure
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.mounts import FailingDisk, failing_disk, quorum_on
from tests.acceptance.readers import read_with_confluent
from tests.acceptance.writers import ConfluentWriter

FETCH_TIMEOUT_MS = "5000"
"""A busy machine moves no leadership, and a leader whose disk failed is soon replaced."""


@pytest.fixture
def quorum(make_quorum: MakeQuorum) -> Iterator[tuple[Quorum, dict[int, FailingDisk]]]:
    with quorum_on(make_quorum, failing_disk, controller_quorum_fetch_timeout_ms=FETCH_TIMEOUT_MS) as found:
        yield found


def assert_failed(node: NodeProcess, message: str) -> None:
    """The process ends by itself, with the exit code of a failed disk and that in its last line."""
    assert node.wait() == StorageFailure.exit_code, node.log_text()[-2000:]
    last = node.log_text().splitlines()[-1]
    assert last.startswith("kraft: error: ")
    assert message in last, last
    assert "Input/output error" in last, last


@pytest.mark.rotating(5)
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_an_fsync_that_fails_ends_the_node_and_loses_nothing(
    quorum: tuple[Quorum, dict[int, FailingDisk]], who: str
) -> None:
    """The next fsync would succeed, as the kernel has dropped what it could not write (scenario S12)."""
    nodes, disks = quorum
    leader = nodes.leader()
    failing = leader if who == "leader" else next(node for node in nodes.nodes.values() if node is not leader)
    writer = ConfluentWriter("w", nodes.bootstrap_servers, idempotent=True)
    writer.start()
    try:
        wait_until("some are acknowledged", lambda: len(writer.acknowledged) > 20)
        disks[failing.id].fail()
        assert_failed(failing, "a write or fsync failed, the log cannot be trusted any more")
        assert "storage poisoned" in [event["event"] for event in failing.log_events()]
        nodes.leader(besides=failing.id)
        before = len(writer.acknowledged)
        wait_until("the others go on", lambda: len(writer.acknowledged) > before + 20)
        disks[failing.id].heal()
        nodes.start([failing.id])
        nodes.wait_until_caught_up()
        writer.stop()
    finally:
        writer.abandon()
    nodes.assert_logs_equal()
    found = Counter(value for _, value in read_with_confluent(nodes.bootstrap_servers))
    assert found.total() == len(found), "nothing is there twice"
    assert set(writer.acknowledged) <= set(found)


@pytest.mark.rotating(5)
def test_a_log_that_cannot_be_read_at_start_is_named(quorum: tuple[Quorum, dict[int, FailingDisk]]) -> None:
    nodes, disks = quorum
    nodes.produce(["value"])
    node = nodes.nodes[1]
    nodes.wait_until_caught_up()
    node.stop()
    (log,) = node.partition_directory.glob("*.log")
    disks[node.id].forget_cached(log)
    disks[node.id].fail()
    node.start()
    assert_failed(node, str(log))
    for command in (["dump-log", str(log)], ["log", "verify", str(node.directory)]):
        told = kraft(*command)
        assert told.returncode == 1, "and it is no signal that ends it"
        # ext4 answers ENOMEM for a block beyond the device's end, should the kernel have dropped the directory's.
        directory = f"{node.directory}: Cannot allocate memory"
        assert any(text in told.stdout + told.stderr for text in (f"{log}: Input/output error", directory))
    disks[node.id].heal()
    nodes.start([node.id])
    nodes.assert_logs_equal()


@pytest.mark.rotating(5)
def test_a_log_that_cannot_be_read_while_it_runs_ends_the_node(quorum: tuple[Quorum, dict[int, FailingDisk]]) -> None:
    nodes, disks = quorum
    nodes.produce(["value"])
    nodes.wait_until_caught_up()
    leader = nodes.leader()
    (log,) = leader.partition_directory.glob("*.log")
    disks[leader.id].forget_cached(log)
    disks[leader.id].fail()
    assert "value" in [value for _, value in read_with_confluent(nodes.bootstrap_servers)]
    assert_failed(leader, "cannot read the log")
    disks[leader.id].heal()
    nodes.start([leader.id])
    nodes.assert_logs_equal()
