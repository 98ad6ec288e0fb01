"""What a node makes, at start, of a quorum-state that is not what it stored."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
import structlog.testing

from kraft_trio.errors import StorageError, StorageFailure
from kraft_trio.protocol.roles import ElectionState, Unattached
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.other_logs import warn_of_other_logs
from kraft_trio.storage.directory.quorum_state import encode_quorum_state
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster


def remove(disk: SimulatedDisk, path: str) -> None:
    disk.remove(path)


def flip_in_epoch(disk: SimulatedDisk, path: str) -> None:
    disk.damage(path, disk.read_bytes(path).index(b'"leaderEpoch":') + len(b'"leaderEpoch":'), 0x02)


def vote_for_another(disk: SimulatedDisk, path: str) -> None:
    state = ElectionState(7, leader_id=1, voted_key=ReplicaKey(2))
    disk.replace_now(path, encode_quorum_state(state, 1, VoterSet()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove, "quorum-state: missing, expected next to .*log"),
        (flip_in_epoch, "quorum-state: line 2: .* expected the CRC-32C of line 1"),
        (vote_for_another, "quorum-state: leaderId 1, which is this node, with votedId 2"),
    ],
)
@on_cluster(voters=1)
async def test_what_it_cannot_have_stored_is_refused(
    cluster: Cluster, change: Callable[[SimulatedDisk, str], None], message: str
) -> None:
    node = await cluster.wait_for_leader()
    await node.append([b"value"])
    machine = cluster.machines[1]
    await machine.stop()
    change(machine.disk, f"{machine.partition_path}/quorum-state")
    with pytest.raises(StorageError, match=message):
        async with lone_node(cluster, 1):
            pytest.fail("it runs")


@on_cluster(voters=1)
async def test_one_older_than_the_log_leaves_it_in_the_logs_epoch(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    await node.append([b"value"])
    machine = cluster.machines[1]
    await machine.stop()
    older = encode_quorum_state(ElectionState(0), 1, VoterSet())
    machine.disk.replace_now(f"{machine.partition_path}/quorum-state", older)
    async with lone_node(cluster, 1) as node:
        assert node.view.role == Unattached(1)


@on_cluster(voters=1)
async def test_a_renamed_log_beside_the_nodes_own_is_mentioned(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    machine = cluster.machines[1]
    await machine.stop()
    renamed = f"{machine.partition_path}.old"
    machine.disk.make_directory(renamed)
    machine.disk.replace_now(
        f"{renamed}/quorum-state", machine.disk.read_bytes(f"{machine.partition_path}/quorum-state")
    )
    machine.disk.make_directory(f"{machine.config.metadata_log_dir}/empty-0.old")
    with structlog.testing.capture_logs() as events:
        async with lone_node(cluster, 1):
            pass
    [warning] = [event for event in events if event["event"] == "another log in the directory is ignored"]
    assert (warning["directory"], warning["used"]) == (renamed, machine.partition_path)


def test_a_renamed_log_is_not_replaced_by_an_empty_one() -> None:
    disk = SimulatedDisk()
    for name in ("/data", "/data/events-0.old"):
        disk.make_directory(name)
    disk.replace_now("/data/events-0.old/quorum-state", b"{}")
    with pytest.raises(StorageError, match=r"^/data/events-0: missing, but /data/events-0\.old holds a log: "):
        warn_of_other_logs(disk, "/data", "events")


class WithLostAndFound(SimulatedDisk):
    """Only root may read lost+found, which every ext4 has at its top."""

    def list_directory(self, path: str) -> list[str]:
        if path == "/data/lost+found":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().list_directory(path)


def test_a_directory_that_only_root_may_read_does_not_end_the_start() -> None:
    disk = WithLostAndFound()
    for name in ("/data", "/data/lost+found", "/data/events-0"):
        disk.make_directory(name)
    warn_of_other_logs(disk, "/data", "events")


def test_a_directory_that_cannot_be_listed_is_a_failed_disk() -> None:
    with pytest.raises(StorageFailure, match=r"^/data: cannot be listed: "):
        warn_of_other_logs(SimulatedDisk(), "/data", "events")
