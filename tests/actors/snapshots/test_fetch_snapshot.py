"""FetchSnapshot, as a replica or a tool sends it to any node: pieces, positions, errors; it counts as contact."""

from __future__ import annotations

import attrs
import pytest
import trio

from kraft_trio.actors.snapshots.snapshot_server import MAX_OPEN_FILES, MAX_PIECE_BYTES, SnapshotServer
from kraft_trio.errors import StorageFailure
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from kraft_trio.storage.snapshots.snapshots import Snapshots
from kraft_trio.wire.api import FETCH_SNAPSHOT
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.storage.support import DIRECTORY, snapshot_state, write_snapshot
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, STRANGER, TOPIC, RawClient


async def with_snapshot(cluster: Cluster, node: Node) -> OffsetAndEpoch:
    """A snapshot of all that is committed on that node."""
    values = [b"%05d" % number for number in range(50)]
    await node.append(values)
    offset = node.high_watermark
    assert offset is not None
    snapshot_id = node.log.next_snapshot_id(offset)
    assert snapshot_id is not None
    disk = cluster.machines[node.key.id].disk
    await write_snapshot(disk, snapshot_id, snapshot_state(node.log, offset), values, node.log.directory)
    node.log.add_snapshot(snapshot_id)
    return snapshot_id


def request(node: Node, snapshot_id: OffsetAndEpoch, **changes: object) -> FetchSnapshotRequest:
    asked = FetchSnapshotRequest(
        CLUSTER_ID, STRANGER.id, 100, TOPIC, 0, node.view.epoch, snapshot_id, 0, STRANGER.directory_id
    )
    return attrs.evolve(asked, **changes)  # type: ignore[arg-type]


async def ask(cluster: Cluster, node: Node, asked: FetchSnapshotRequest) -> FetchSnapshotResponse:
    async with RawClient.connected(cluster, node.key.id) as client:
        return await client.ask(FETCH_SNAPSHOT, asked)


@on_cluster(invariants=FORGED)
async def test_the_pieces_make_the_snapshot(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    snapshot_id = await with_snapshot(cluster, leader)
    whole = cluster.machines[leader.key.id].disk.peek(leader.log.snapshots.path(snapshot_id))
    assert whole is not None
    got = b""
    async with RawClient.connected(cluster, leader.key.id) as client:
        while len(got) < len(whole):
            piece = await client.ask(FETCH_SNAPSHOT, request(leader, snapshot_id, position=len(got)))
            assert (piece.error, piece.partition_error) == (ErrorCode.none, ErrorCode.none)
            assert (piece.snapshot_id, piece.position, piece.size) == (snapshot_id, len(got), len(whole))
            assert (piece.leader_id, piece.leader_epoch) == (leader.key.id, leader.view.epoch)
            assert 0 < len(piece.unaligned_records) <= 100
            got += piece.unaligned_records
    assert got == whole


@on_cluster(invariants=FORGED)
async def test_what_is_not_there_is_not_given(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()  # nobody needs the snapshot
    snapshot_id = await with_snapshot(cluster, leader)
    size = leader.log.snapshots.file(snapshot_id).size_in_bytes
    for asked, error in (
        (request(leader, snapshot_id, position=size - 1), ErrorCode.none),
        (request(leader, snapshot_id, position=size), ErrorCode.position_out_of_range),
        (request(leader, snapshot_id, position=-1), ErrorCode.position_out_of_range),
        (request(leader, OffsetAndEpoch(snapshot_id.offset - 1, 1)), ErrorCode.snapshot_not_found),
        (request(leader, OffsetAndEpoch(snapshot_id.offset, 99)), ErrorCode.snapshot_not_found),
        (request(leader, OffsetAndEpoch(0, 0)), ErrorCode.snapshot_not_found),
        (request(leader, snapshot_id, topic="other"), ErrorCode.unknown_topic_or_partition),
        (request(leader, snapshot_id, partition=1), ErrorCode.unknown_topic_or_partition),
    ):
        answer = await ask(cluster, leader, asked)
        assert (answer.error, answer.partition_error) == (ErrorCode.none, error), asked
        assert bool(answer.unaligned_records) is (error == ErrorCode.none)
    other_cluster = await ask(cluster, leader, request(leader, snapshot_id, cluster_id="other"))
    assert other_cluster.error == ErrorCode.inconsistent_cluster_id


@on_cluster(invariants=FORGED)
async def test_only_the_leader_of_that_epoch_gives_any(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()  # nobody needs the snapshot
    snapshot_id = await with_snapshot(cluster, leader)
    follower = cluster.others(leader)[0]
    epoch = leader.view.epoch
    for node, asked_epoch, error in (
        (follower, epoch, ErrorCode.not_leader_or_follower),
        (leader, epoch - 1, ErrorCode.fenced_leader_epoch),
        (leader, epoch + 1, ErrorCode.unknown_leader_epoch),
        (leader, -1, ErrorCode.none),
    ):
        answer = await ask(cluster, node, request(leader, snapshot_id, current_leader_epoch=asked_epoch))
        assert answer.partition_error == error
        assert (answer.leader_id, answer.leader_epoch) == (leader.key.id, epoch)
        assert answer.leader_endpoint == cluster.endpoint_of(leader.key.id)
    assert leader.view.epoch == epoch, "a FetchSnapshot raises nobody's epoch"


@on_cluster(voters=1, invariants=FORGED)
async def test_a_split_has_at_least_one_byte_and_ignores_tools(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    snapshot_id = await with_snapshot(cluster, leader)
    for max_bytes in (0, -1, 1):
        answer = await ask(cluster, leader, request(leader, snapshot_id, max_bytes=max_bytes, replica_id=-1))
        assert len(answer.unaligned_records) == 1
    async with RawClient.connected(cluster, 1) as client:
        assert (await client.describe()).observers == ()
        await client.ask(FETCH_SNAPSHOT, request(leader, snapshot_id, position=-1))
        assert (await client.describe()).observers == (), "nor does one that is refused"
        await client.ask(FETCH_SNAPSHOT, request(leader, snapshot_id))
        (observer,) = (await client.describe()).observers
    assert (observer.key, observer.log_end_offset) == (STRANGER, 0)


@on_cluster(voters=2, invariants=FORGED)
async def test_a_voter_that_fetches_a_snapshot_is_in_contact(cluster: Cluster) -> None:
    """However long it takes: the leader does not resign for want of Fetches."""
    leader = await cluster.wait_for_leader()
    snapshot_id = await with_snapshot(cluster, leader)
    (follower,) = cluster.others(leader)
    cluster.machines[follower.key.id].kill()
    epoch = leader.view.epoch
    asked = request(
        leader, snapshot_id, replica_id=follower.key.id, replica_directory_id=follower.key.directory_id, max_bytes=1
    )
    for _ in range(20):
        await trio.sleep(leader.config.fetch_timeout_ms / 1000)
        assert (await ask(cluster, leader, asked)).partition_error == ErrorCode.none
    assert isinstance(leader.view.role, Leader)
    assert leader.view.epoch == epoch
    await trio.sleep(leader.config.fetch_timeout_ms / 1000 * 2)
    assert not isinstance(leader.view.role, Leader), "and without that it does"


@on_cluster(invariants=FORGED)
async def test_one_that_was_trimmed_meanwhile_is_not_found(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    first = await with_snapshot(cluster, leader)
    assert (await ask(cluster, leader, request(leader, first))).partition_error == ErrorCode.none
    second = await with_snapshot(cluster, leader)
    await leader.log.trim(RetentionLimits(0, None))
    assert leader.log.snapshots.ids == (second,)
    gone = await ask(cluster, leader, request(leader, first, position=100))
    assert gone.partition_error == ErrorCode.snapshot_not_found
    assert (await ask(cluster, leader, request(leader, second))).partition_error == ErrorCode.none


@on_cluster(invariants=FORGED)
async def test_an_empty_replica_is_told_of_the_snapshot(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    snapshot_id = await with_snapshot(cluster, leader)
    async with RawClient.connected(cluster, leader.key.id) as client:
        epoch = leader.view.epoch
        blank = await client.fetch(0, epoch=epoch, last_fetched_epoch=0, replica=STRANGER)
        other = await client.fetch(
            snapshot_id.offset, epoch=epoch, last_fetched_epoch=snapshot_id.epoch, replica=STRANGER
        )
    assert (blank.error, blank.snapshot_id, blank.records) == (ErrorCode.none, snapshot_id, b"")
    assert (other.error, other.snapshot_id) == (ErrorCode.none, None)


class TestServer:
    """The part that reads the files."""

    async def snapshots(self, count: int, values: int = 1) -> tuple[SimulatedDisk, Snapshots]:
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        for offset in range(1, count + 1):
            await write_snapshot(disk, OffsetAndEpoch(offset, 1), ControlState(0), [bytes(10_000)] * values)
        return disk, Snapshots.find(disk, DIRECTORY, disk.list_directory(DIRECTORY))

    async def test_files_stay_open_between_pieces_and_not_more_than_a_few(self) -> None:
        disk, snapshots = await self.snapshots(MAX_OPEN_FILES + 1)
        server = SnapshotServer(snapshots)
        opened: list[str] = []
        disk.hook = lambda operation, path: opened.append(path) if operation == "open" else None
        for snapshot_id in snapshots.ids[:2] * 3:
            assert server.piece(None, snapshot_id, 0, 10, now_s=0).error == ErrorCode.none
        assert len(opened) == 2
        for snapshot_id in snapshots.ids:
            server.piece(None, snapshot_id, 0, 10, now_s=0)
        server.piece(None, snapshots.ids[0], 0, 10, now_s=0)
        # The one that nobody had asked for longest was closed.
        assert [snapshots.path(id) for id in (*snapshots.ids, snapshots.ids[0])] == opened
        server.close()

    async def test_a_deleted_one_gives_its_room_back(self) -> None:
        _, snapshots = await self.snapshots(2)
        server = SnapshotServer(snapshots)
        for snapshot_id in snapshots.ids:
            server.piece(None, snapshot_id, 0, 10, now_s=0)
        first, second = server._files.values()
        snapshots.retire(snapshots.ids[0])
        with pytest.raises(ValueError, match="closed"):
            first.read_at(0, 1)
        assert second.read_at(0, 1)
        server.close()
        snapshots.retire(snapshots.ids[0])

    async def test_no_more_than_so_much_is_read_at_a_time(self) -> None:
        _, snapshots = await self.snapshots(1, values=200)
        server = SnapshotServer(snapshots)
        piece = server.piece(None, snapshots.ids[0], 0, 2**31 - 1, now_s=0)
        assert len(piece.data) == MAX_PIECE_BYTES < piece.size_in_bytes
        server.close()

    async def test_a_disk_that_cannot_be_read_is_a_failure(self) -> None:
        disk, snapshots = await self.snapshots(1)
        disk.fail("read_at")
        server = SnapshotServer(snapshots)
        with pytest.raises(StorageFailure, match=r"1-0000000001\.checkpoint: cannot be read: .*EIO"):
            server.piece(None, snapshots.ids[0], 0, 10, now_s=0)
        server.close()
