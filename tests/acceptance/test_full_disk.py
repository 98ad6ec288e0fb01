"""A disk that is really full: the node hands over, says what to do, and comes back with everything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from harness.command import kraft
from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.waiting import wait_until
from kraft_trio.errors import DiskFullError
from kraft_trio.storage.disk.disk_reserve import DISK_RESERVE, RESERVE_BYTES
from kraft_trio.storage.disk.part_file import SPARED_BYTES
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.mounts import SmallDisk, quorum_on, small_disk
from tests.acceptance.readers import read_with_confluent
from tests.acceptance.writers import ConfluentWriter, Writer

ROOM_BYTES = 48 * 1024
"""Less than the reserve, so that a node that has run full has no room for a new one."""


@pytest.fixture
def quorum(make_quorum: MakeQuorum) -> Iterator[tuple[Quorum, dict[int, SmallDisk]]]:
    with quorum_on(make_quorum, small_disk, is_steady=True) as found:
        yield found


def fill(writer: Writer, node: NodeProcess) -> int:
    """Write until that node has ended; its exit code."""
    writer.start()
    wait_until(f"node {node.id} runs full and ends", lambda: not node.running)
    return node.exit_code


def assert_nothing_is_lost(quorum: Quorum, writer: Writer) -> None:
    quorum.assert_logs_equal()
    found = Counter(value for _, value in read_with_confluent(quorum.bootstrap_servers))
    assert found.total() == len(found), "nothing is there twice"
    assert set(writer.acknowledged) <= set(found)


@pytest.mark.rotating(5)
def test_a_leader_hands_over_ends_and_comes_back(quorum: tuple[Quorum, dict[int, SmallDisk]]) -> None:
    nodes, disks = quorum
    full = nodes.leader()
    reserve = full.directory / DISK_RESERVE
    assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES, "its blocks are really there"
    disks[full.id].leave_room(ROOM_BYTES)
    writer = ConfluentWriter("full", nodes.bootstrap_servers, idempotent=True)
    try:
        assert fill(writer, full) == DiskFullError.exit_code
        message = full.log_text().splitlines()[-1]
        assert re.fullmatch(
            rf"kraft: error: {full.partition_directory}/\d{{20}}\.log: \d+ bytes cannot be appended: "
            ".*No space left .*; free space on that file system or enlarge it, then start the node again: .*",
            message,
        ), message
        roles = [event["role"] for event in full.log_events() if event["event"] == "role"]
        assert roles[-1] != "Leader", "it resigned before it ended"
        assert "Resigned" in roles
        assert not reserve.exists()

        nodes.leader(besides=full.id)
        before = len(writer.acknowledged)
        wait_until("the others go on", lambda: len(writer.acknowledged) > before + 50)

        full.start()
        assert full.wait() == DiskFullError.exit_code
        disks[full.id].enlarge()
        nodes.start([full.id])
        nodes.wait_until_caught_up()
        assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES
        writer.stop()
    finally:
        writer.abandon()
    assert_nothing_is_lost(nodes, writer)


@pytest.mark.rotating(5)
def test_a_follower_ends_alone(quorum: tuple[Quorum, dict[int, SmallDisk]]) -> None:
    nodes, disks = quorum
    leader = nodes.leader()
    full = next(node for node in nodes.nodes.values() if node is not leader)
    disks[full.id].leave_room(ROOM_BYTES)
    writer = ConfluentWriter("full", nodes.bootstrap_servers, idempotent=True)
    try:
        assert fill(writer, full) == DiskFullError.exit_code
        assert "bytes cannot be appended" in full.log_text().splitlines()[-1]
        assert nodes.leader() is leader
        disks[full.id].enlarge()
        nodes.start([full.id])
        writer.stop()
    finally:
        writer.abandon()
    assert_nothing_is_lost(nodes, writer)


@pytest.mark.rotating(5)
def test_a_snapshot_leaves_the_rest_of_the_disk_to_the_log(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(voters=1, kraft_state_machine="latest-by-key")
    (node,) = quorum.nodes.values()
    with small_disk(node.directory) as disk:
        try:
            quorum.start()
            quorum.produce([f"{number:01000}" for number in range(20)])
            disk.leave_room(SPARED_BYTES // 2)
            take = ["snapshot", "take", "--bootstrap-controller", str(node.endpoint)]
            refused = kraft(*take)
            assert refused.returncode == 1
            assert f"no room: {SPARED_BYTES} bytes are left to the log" in refused.stdout + refused.stderr
            assert not list(node.partition_directory.glob("*.part*"))
            quorum.produce(["the log goes on"])
            disk.enlarge()
            taken = kraft(*take)
            assert taken.returncode == 0, taken.stderr
            assert [path.name for path in node.partition_directory.glob("*.checkpoint")][1:]
            assert node.stop() == 0
        finally:
            quorum.kill_all()
