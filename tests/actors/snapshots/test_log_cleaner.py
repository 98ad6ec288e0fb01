"""The log is trimmed regularly, never under a replica that is fetching it, and without delaying anyone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import structlog
import trio
import trio.testing

from kraft_trio.actors.snapshots.log_cleaner import INTERVAL_S
from kraft_trio.actors.snapshots.snapshot_fetch import SnapshotFetch
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotResponse
from tests.storage.support import DIRECTORY, batch, open_log, take_snapshot, write_snapshot
from tests.support import sizes
from tests.support.on_cluster import on_cluster

SETTINGS = {
    "metadata.log.segment.bytes": "1024",
    "metadata.log.max.snapshot.interval.ms": "0",
    "controller.quorum.fetch.snapshot.max.bytes": "125",
}
NO_LIMIT = {"metadata.max.retention.bytes": "-1", "metadata.max.retention.ms": "-1"}


def on_trimming_cluster(*, settings: dict[str, str], **fields: Any) -> Any:
    return on_cluster(settings={**SETTINGS, **settings}, state_machine=lambda _: RememberedValues(), **fields)


def values(start: int, count: int) -> list[bytes]:
    return [b"%050d" % number for number in range(start, start + count)]


async def write(node: Node, start: int, count: int) -> None:
    """About 65 bytes of log a value; ten of them are a batch."""
    for number in range(start, start + count, 10):
        await node.append(values(number, 10))


class Writer:
    """Appends ten values every so often for as long as its block lasts."""

    def __init__(self, nursery: trio.Nursery, node: Node, every_s: float) -> None:
        self._node, self._every_s = node, every_s
        self.written = 1000
        nursery.start_soon(self._write)

    async def _write(self) -> None:
        while True:
            await self._node.append(values(self.written, 10))
            self.written += 10
            await trio.sleep(self._every_s)


SLOW_OBSERVER: dict[str, Any] = {"voters": 1, "observers": 1, "started": (1,)}
LARGE_STATE = {
    "metadata.max.retention.bytes": "4000",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
}
"""With a state of 40,000 bytes or more, the nodes take a snapshot every few seconds."""


async def slow_observer(cluster: Cluster) -> Node:
    """Four pieces of 125 bytes take it 0.2 seconds, so that 40,000 bytes take sixteen."""
    for source, target in itertools.permutations(cluster.machines, 2):
        hosts = cluster.machines[source].host, cluster.machines[target].host
        cluster.network.set_link(*hosts, latency=Latency.constant(0.1))
    observer = await cluster.machines[2].start()
    assert observer is not None
    return observer


def check_what_is_kept(node: Node) -> None:
    """The snapshot that is fetched and as much of the log; the newest, and the one that was it until just now."""
    oldest, *others = node.log.snapshots.files()
    since_the_last_trim = 8000
    assert node.log.size_in_bytes <= max(oldest.size_in_bytes, 4000) + since_the_last_trim
    assert len(others) <= 2


@on_trimming_cluster(settings=LARGE_STATE, **SLOW_OBSERVER)
async def test_a_slow_replica_gets_a_state_larger_than_the_buffer(cluster: Cluster) -> None:
    """While newer snapshots are taken all the time; and then the log behind it, without needing another snapshot."""
    leader = await cluster.wait_for_leader()
    await write(leader, 0, 600)
    async with trio.open_nursery() as nursery:
        observer = await slow_observer(cluster)
        Writer(nursery, leader, every_s=0.7)
        taken: set[OffsetAndEpoch] = set()
        with structlog.testing.capture_logs() as events:
            while not leader.log.end_offset - 20 <= observer.log.end_offset:
                await trio.sleep(0.5)
                taken.update(leader.log.snapshots.ids)
                check_what_is_kept(leader)
        (fetched,) = [event["snapshot_id"] for event in events if event["event"] == "fetching a snapshot"]
        assert len([id for id in taken if str(id) > fetched]) >= 3, "it would have started over with each of these"
        # Caught up, it needs nothing any more, and what was spared for it goes.
        await cluster.wait_until(lambda: fetched not in {str(id) for id in leader.log.snapshots.ids})
        nursery.cancel_scope.cancel()


@on_trimming_cluster(settings=LARGE_STATE, **SLOW_OBSERVER)
async def test_one_that_never_catches_up_does_not_stop_the_trimming(cluster: Cluster) -> None:
    """Pieces are given every 0.2 s, all the time; it receives more slowly than is appended."""
    leader = await cluster.wait_for_leader()
    await write(leader, 0, 600)
    async with trio.open_nursery() as nursery:
        await slow_observer(cluster)
        first = leader.log.snapshots.newest
        Writer(nursery, leader, every_s=0.15)
        await cluster.wait_until(lambda: first not in leader.log.snapshots.ids)
        for _ in range(60 if sizes.IS_ALL else 20):
            await trio.sleep(1)
            check_what_is_kept(leader)
        nursery.cancel_scope.cancel()


@on_trimming_cluster(settings=LARGE_STATE, **SLOW_OBSERVER)
async def test_one_that_has_gone_away_is_not_waited_for(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await write(leader, 0, 600)
    await slow_observer(cluster)
    fetched = leader.log.snapshots.newest
    assert fetched is not None
    await trio.sleep(3)
    assert leader.log.snapshots.downloads.under_way(0) == {fetched}
    cluster.machines[2].kill()
    await trio.sleep(20)
    await write(leader, 1000, 100)
    assert fetched not in leader.log.snapshots.ids


@on_trimming_cluster(settings=LARGE_STATE, voters=3, observers=1, started=(1, 2, 3))
async def test_a_former_leader_spares_nothing(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await write(leader, 0, 600)
    downloads = leader.log.snapshots.downloads
    cluster.network.set_link(
        cluster.machines[4].host, cluster.machines[leader.key.id].host, latency=Latency.constant(0.1)
    )
    await cluster.machines[4].start()
    await cluster.wait_until(lambda: bool(downloads.under_way(0)))
    cut = cluster.network.isolate(cluster.machines[leader.key.id].host)
    await cluster.wait_for_leader(other_than=leader)
    await cluster.wait_until(lambda: not isinstance(leader.view.role, Leader))
    assert downloads.under_way(0) == frozenset()
    cluster.network.heal(cut)


@on_trimming_cluster(settings={**NO_LIMIT, "metadata.max.retention.ms": "300000"}, voters=3)
async def test_outdated_segments_go_without_a_new_snapshot(cluster: Cluster) -> None:
    """On followers too; to the minute."""
    leader = await cluster.wait_for_leader()
    await write(leader, 0, 100)
    await cluster.wait_until_alike()
    for node in cluster.nodes.values():
        await node.take_snapshot()
        assert node.log.log_start_offset == 0
    await trio.sleep(300 - INTERVAL_S)
    assert [node.log.log_start_offset for node in cluster.nodes.values()] == [0, 0, 0]
    await trio.sleep(2 * INTERVAL_S + 1)
    for node in cluster.nodes.values():
        assert 0 < node.log.log_start_offset <= node.log.snapshots.ids[0].offset
        assert not [
            name for name in cluster.machines[node.key.id].disk.peek_names(node.log.directory) if "deleted" in name
        ]


@on_trimming_cluster(settings={**NO_LIMIT, "metadata.max.retention.bytes": "0"}, voters=1)
async def test_nobody_waits_for_a_trim(cluster: Cluster) -> None:
    """However long the device takes for each of its steps, appends commit meanwhile, and the log begins further on."""
    node = await cluster.wait_for_leader()
    await write(node, 0, 200)
    disk = cluster.machines[1].disk
    move, committed, starts = disk.move, [node.log.high_watermark or 0], [0]

    async def slow_move(old_path: str, new_path: str) -> None:
        await trio.sleep(0.5)
        await move(old_path, new_path)
        committed.append(node.log.high_watermark or 0)
        starts.append(node.log.log_start_offset)

    disk.move = slow_move  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        Writer(nursery, node, every_s=0.1)
        await node.take_snapshot()
        nursery.cancel_scope.cancel()
    assert len(committed) > 5
    assert all(before < after for before, after in itertools.pairwise(committed))
    assert starts == sorted(starts)
    assert starts[-1] > starts[3] > 0


@on_trimming_cluster(settings=LARGE_STATE, voters=1)
async def test_a_damaged_newest_snapshot_ends_no_node(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    await write(node, 0, 100)
    await trio.sleep(1)
    newest = node.log.snapshots.newest
    assert newest is not None
    before = node.log.log_start_offset
    cluster.machines[1].disk.damage(node.log.snapshots.path(newest), 20)
    node.log.snapshots._files.clear()
    with structlog.testing.capture_logs() as events:
        await trio.sleep(INTERVAL_S)
    assert [event["event"] for event in events] == ["not trimmed: the newest snapshot is damaged"]
    assert node.log.log_start_offset == before
    await write(node, 200, 100)
    assert node.log.log_start_offset > before, "the next snapshot stands for it"


async def fetched(disk: SimulatedDisk) -> tuple[Log, SnapshotFetch]:
    """A log of ten records, and a snapshot up to offset 40 that is here and not installed.  A sync takes a second."""
    theirs = SimulatedDisk()
    log = open_log(disk, segment_bytes=100)
    for number in range(10):
        log.append_as_leader(batch(b"%03d" % number), 1)
    await log.sync()
    log.advance_high_watermark(10)
    await take_snapshot(log, 10)
    theirs.make_directory(DIRECTORY)
    snapshot_id = OffsetAndEpoch(40, 2)
    await write_snapshot(theirs, snapshot_id, ControlState(1000), [b"state"])
    content = theirs.read_bytes(f"{DIRECTORY}/{checkpoint_name(snapshot_id)}")
    fetch = SnapshotFetch(disk, log)
    await fetch.begin(snapshot_id, 2)
    await fetch.take(
        FetchSnapshotResponse(snapshot_id=snapshot_id, size=len(content), position=0, unaligned_records=content)
    )
    disk.sync_latency = lambda: 1.0
    return log, fetch


@pytest.mark.parametrize("cancelled_at_s", [0.0, 0.5])
async def test_a_cancelled_install_is_complete_or_goes_on(
    autojump_clock: trio.testing.MockClock, cancelled_at_s: float
) -> None:
    """No epoch has to fetch a snapshot again that was here."""
    log, fetch = await fetched(SimulatedDisk())
    with trio.move_on_after(cancelled_at_s):
        await fetch.install()
    if log.end_offset < 40:
        assert fetch.snapshot_id == OffsetAndEpoch(40, 2)
        await fetch.install()
    assert (log.log_start_offset, log.end_offset) == (40, 40)
    await log.close()


async def test_a_snapshot_takes_the_logs_place_once_the_trim_is_over(autojump_clock: trio.testing.MockClock) -> None:
    log, fetch = await fetched(SimulatedDisk())
    starts: list[int] = []

    async def trim() -> None:
        await log.trim(RetentionLimits(0, None))
        starts.append(log.log_start_offset)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trim)
        await trio.sleep(0.5)
        await fetch.install()
    assert starts[0] < 10, "the trim was over first"
    assert (log.log_start_offset, log.end_offset) == (40, 40)
    await log.close()
