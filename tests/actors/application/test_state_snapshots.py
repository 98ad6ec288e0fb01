"""The application's own snapshots: when one is taken, what is in it, what continues meanwhile, and how it is loaded."""

from __future__ import annotations

import errno
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.actors.application.record_decoder import RecordDecoder
from kraft_trio.actors.application.state_machine_driver import StateMachineDriver
from kraft_trio.config import parse_config
from kraft_trio.errors import NodeClosedError, OffsetOutOfRangeError, StorageError, StorageFailure
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.running import open_node
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.simulation.violation import InvariantViolated
from kraft_trio.storage.batches.batch import NewRecord, Record
from kraft_trio.storage.disk.record_thread import InLoop
from kraft_trio.storage.snapshots.snapshot_reader import check_snapshot
from kraft_trio.wire.error_codes import ErrorCode
from tests.storage.support import log_with_snapshot
from tests.support.on_cluster import on_cluster, run_on_cluster
from tests.support.raw_client import RawClient, batch_of

BY_HAND = {"metadata.log.max.snapshot.interval.ms": "0", "metadata.log.max.record.bytes.between.snapshots": str(2**40)}
KEEP_NOTHING = {"metadata.log.segment.bytes": "1024", "metadata.max.retention.bytes": "0"}


class Machines:
    """The state machine of each node's present process, as a Setup makes them."""

    def __init__(self, made: type[RememberedValues] = RememberedValues) -> None:
        self._made = made
        self.by_id: dict[int, Any] = {}

    def __call__(self, node_id: int) -> RememberedValues:
        self.by_id[node_id] = self._made()
        return self.by_id[node_id]


def on_machines(machines: Machines, test: Any, **settings: Any) -> None:
    fields = {"settings": {**BY_HAND, **settings.pop("settings", {})}, **settings}
    run_on_cluster(test, Setup(state_machine=machines, **fields))


def values(start: int, count: int) -> list[bytes]:
    return [b"%050d" % number for number in range(start, start + count)]


def test_what_is_loaded_is_what_was_saved() -> None:
    """Here and at the next start: the snapshot first, and of the log only what comes after it."""
    machines = Machines()

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append(values(0, 3))
        snapshot_id = await leader.take_snapshot()
        assert snapshot_id == OffsetAndEpoch(leader.log.end_offset, 1)
        await leader.append(values(3, 2))
        await cluster.machines[1].stop()
        await cluster.machines[1].start()
        leader = await cluster.wait_for_leader()
        await cluster.wait_until(lambda: len(machines.by_id[1].values) == 5)
        assert machines.by_id[1].values == values(0, 5)
        assert machines.by_id[1].loaded == [snapshot_id.offset]
        assert leader.log.log_start_offset == 0, "it was loaded for being there, not for want of the log"

    on_machines(machines, test, voters=1)


def test_asked_for_twice_it_is_taken_once() -> None:
    async def test(cluster: Cluster) -> None:
        node = cluster.nodes[1]
        assert await node.take_snapshot() is None, "nothing is committed yet"
        await cluster.wait_for_leader()
        await node.append(values(0, 3))
        first = await node.take_snapshot()
        assert await node.take_snapshot() == first
        await node.append(values(3, 3))
        both: list[OffsetAndEpoch | None] = []

        async def take() -> None:
            both.append(await node.take_snapshot())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            nursery.start_soon(take)
        assert both[0] == both[1] != first
        assert node.log.snapshots.ids == (first, both[0])

    on_machines(Machines(), test, voters=1)


def test_one_is_taken_after_so_many_bytes() -> None:
    """By every replica for itself; the same one where they take it at the same offset."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        for number in range(0, 200, 10):
            await leader.append(values(number, 10))
            # A snapshot is due again once the previous one is on disk.
            await trio.sleep(0.1)
        await cluster.wait_until_alike()
        await trio.sleep(1)
        for node in cluster.nodes.values():
            ids = node.log.snapshots.ids
            assert len(ids) >= 3
            between = [later.offset - earlier.offset for earlier, later in itertools.pairwise(ids)]
            # A batch of ten values takes between 600 and 1000 bytes.
            assert all(2 * 10 <= offsets <= 4 * 10 for offsets in between), between

    settings = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    on_machines(Machines(), test, settings=settings)


def test_one_that_was_asked_for_counts_from_then_on() -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        await node.append(values(0, 5))
        asked_for = await node.take_snapshot()
        await node.append(values(5, 20))
        await trio.sleep(0.1)
        assert node.log.snapshots.ids == (asked_for,)
        await node.append(values(25, 20))
        await trio.sleep(0.1)
        assert [snapshot_id.offset for snapshot_id in node.log.snapshots.ids[1:]] == [node.log.end_offset]

    on_machines(Machines(), test, voters=1, settings={"metadata.log.max.record.bytes.between.snapshots": "2000"})


def test_one_is_taken_after_so_long_a_time_if_anything_is_new() -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        await node.append(values(0, 1))
        await trio.sleep(50)
        assert node.log.snapshots.ids == ()
        await trio.sleep(20)
        (first,) = node.log.snapshots.ids
        assert first.offset == node.log.end_offset
        await trio.sleep(200)
        assert node.log.snapshots.ids == (first,), "nothing was new"
        await node.append(values(1, 1))
        await trio.sleep(61)
        assert len(node.log.snapshots.ids) == 2

    on_machines(Machines(), test, voters=1, settings={"metadata.log.max.snapshot.interval.ms": "60000"})


class _Slow(RememberedValues):
    """Its state keeps changing between two records of a snapshot of it."""

    committed = 0
    """By the node, while a snapshot of it was being written."""

    def save(self) -> Iterable[NewRecord]:
        return (NewRecord(value * 1000) for value in list(self.values))

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        await super().load(end_offset, records)
        self.values = [value[: len(value) // 1000] for value in self.values]


def test_the_node_goes_on_committing_while_one_is_written() -> None:
    """However long the device takes for it; and what is applied meanwhile is not in it."""
    machines = Machines(_Slow)

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append(values(0, 200))
        before = leader.high_watermark
        machine = cluster.machines[leader.key.id]
        # What is appended commits without this replica, which syncs too slowly.
        machine.disk.sync_latency = lambda: 0.25
        taken: list[OffsetAndEpoch | None] = []

        async def take() -> None:
            taken.append(await leader.take_snapshot())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await cluster.wait_until(
                lambda: any(name.endswith(".part") for name in machine.disk.peek_names(leader.log.directory))
            )
            appended = 0
            while not taken:
                await leader.append(values(1000 + appended, 1))
                appended += 1
        machine.end_faults()
        assert appended > 3
        (snapshot_id,) = taken
        assert snapshot_id is not None
        assert snapshot_id.offset == before
        assert len(machines.by_id[leader.key.id].values) == 200 + appended
        path = leader.log.snapshots.path(snapshot_id)
        assert check_snapshot(machine.disk, path, snapshot_id).record_count == 200
        await machine.stop()
        await machine.start()
        await cluster.wait_until_alike()
        await cluster.wait_until(lambda: len(machines.by_id[leader.key.id].values) == 200 + appended)
        assert machines.by_id[leader.key.id].values == machines.by_id[cluster.others(leader)[0].key.id].values

    on_machines(machines, test)


def test_those_who_ask_while_one_is_written_share_the_next() -> None:
    machines = Machines(_Slow)

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append(values(0, 200))
        machine = cluster.machines[leader.key.id]
        machine.disk.sync_latency = lambda: 0.25
        taken: list[OffsetAndEpoch | None] = []
        asked_at: list[int] = []

        async def take() -> None:
            asked_at.append(len(machines.by_id[leader.key.id].values))
            taken.append(await leader.take_snapshot())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await cluster.wait_until(
                lambda: any(name.endswith(".part") for name in machine.disk.peek_names(leader.log.directory))
            )
            for number in range(5):
                await leader.append(values(1000 + number, 1))
                nursery.start_soon(take)
            assert not taken
            # More is committed while the others wait, so that each could have one of its own.
            for number in range(50):
                await leader.append(values(2000 + number, 1))
                await trio.sleep(0.1)
        machine.end_faults()
        assert len(taken) == 6
        assert len(set(taken)) == 2
        for asked_for, snapshot_id in zip(asked_at, taken, strict=True):
            assert snapshot_id is not None
            path = leader.log.snapshots.path(snapshot_id)
            assert check_snapshot(machine.disk, path, snapshot_id).record_count >= asked_for

    on_machines(machines, test)


def test_a_cancelled_one_leaves_nothing() -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        await node.append(values(0, 400))  # their snapshot is too large for one step of the device
        disk = cluster.machines[1].disk
        disk.sync_latency = lambda: 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.take_snapshot)
            await cluster.wait_until(lambda: any(".part" in name for name in disk.peek_names(node.log.directory)))
            nursery.cancel_scope.cancel()
        assert node.log.snapshots.ids == ()
        assert not any("-0000000001" in name for name in disk.peek_names(node.log.directory))
        taken = await node.take_snapshot()
        assert taken is not None
        assert taken.offset == node.high_watermark

    on_machines(Machines(_Slow), test, voters=1)


@pytest.mark.parametrize("asked_for", [True, False])
def test_a_node_that_cannot_write_one_ends(asked_for: bool) -> None:
    """A disk that failed once is not trusted again, no matter who wanted the snapshot."""

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        machine = cluster.machines[1]
        machine.excuse("its disk fails")
        machine.disk.fail("append", name=".part")
        await node.append(values(0, 3))
        if asked_for:
            with pytest.raises(StorageFailure, match=r"the snapshot cannot be written: .*EIO"):
                await node.take_snapshot()
        await machine.wait_until_ended()
        assert isinstance(machine.failure, StorageFailure)
        assert "the snapshot cannot be written" in str(machine.failure)

    between = BY_HAND["metadata.log.max.record.bytes.between.snapshots"] if asked_for else "1"
    on_machines(Machines(), test, voters=1, settings={"metadata.log.max.record.bytes.between.snapshots": between})


def load_failing(how: Callable[[Cluster], object]) -> None:
    """Have a node load its snapshot; `how` is called when the application is about to."""
    began: list[Callable[[], object]] = []

    class Failing(RememberedValues):
        async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
            began[0]()
            await super().load(end_offset, records)

    async def test(cluster: Cluster) -> None:
        began.append(lambda: how(cluster))
        node = await cluster.wait_for_leader()
        await node.append(values(0, 3))
        await node.take_snapshot()
        await cluster.machines[1].stop()
        await cluster.machines[1].start()
        await cluster.machines[1].wait_until_ended()
        assert isinstance(cluster.machines[1].failure, StorageFailure)
        assert ".checkpoint: the snapshot cannot be read: " in str(cluster.machines[1].failure)

    on_machines(Machines(Failing), test, voters=1)


def test_a_snapshot_that_cannot_be_read_ends_the_node() -> None:
    def fail(cluster: Cluster) -> None:
        cluster.machines[1].excuse("its disk fails")
        cluster.machines[1].disk.fail("read_at", name=".checkpoint")

    load_failing(fail)


def test_a_newer_one_may_come_while_the_application_prepares_to_load() -> None:
    """The file of the older one is deleted then, and is read all the same."""
    machines: Machines
    may_load = trio.Event()

    class Preparing(RememberedValues):
        async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
            await may_load.wait()
            await super().load(end_offset, records)

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        await node.append(values(0, 3))
        older = await node.take_snapshot()
        assert older is not None
        await cluster.machines[1].stop()
        node = await cluster.machines[1].start()
        await cluster.wait_for_leader()
        await trio.testing.wait_all_tasks_blocked()
        node.log.snapshots.retire(older)
        may_load.set()
        await cluster.wait_until(lambda: machines.by_id[1].values == values(0, 3))

    machines = Machines(Preparing)
    on_machines(machines, test, voters=1)


def test_what_the_application_lacks_is_no_disk_that_failed() -> None:
    """Its own error ends the node, as a bug of the application's does."""

    def fail(cluster: Cluster) -> None:
        raise FileNotFoundError(errno.ENOENT, "not there", "words.txt")

    with pytest.raises(InvariantViolated, match=r"node 1 ended with FileNotFoundError: .*'words\.txt'"):
        load_failing(fail)


async def test_an_application_that_loads_none_needs_the_whole_log() -> None:
    """It is told what is missing, rather than given a part of the log for all of it."""
    disk = SimulatedDisk()
    log, snapshot_id = await log_with_snapshot(disk)
    log.truncate_fully_to(snapshot_id)
    driver = StateMachineDriver(log, _unreachable, RecordDecoder(InLoop(), 1000))
    with pytest.raises(StorageError, match="the log begins at offset 2; an application with on_commit alone needs it"):
        await driver.run()
    await log.close()


async def _unreachable(records: Sequence[Record]) -> None:
    raise AssertionError(f"{records} were given")


def test_a_retried_batch_is_known_by_who_has_only_the_snapshot() -> None:
    """The idempotent producers travel with the snapshot: one that began before it cannot write a batch twice."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        follower = cluster.others(leader)[0].key.id
        cluster.machines[follower].kill()
        retried = batch_of(b"once", producer_id=7, base_sequence=0)
        async with RawClient.connected(cluster, leader.key.id) as client:
            first = await client.produce(retried)
        assert first.error == ErrorCode.none
        for number in range(0, 100, 10):
            await leader.append(values(number, 10))
        await leader.take_snapshot()
        assert leader.log.log_start_offset > first.base_offset
        node = await cluster.machines[follower].start()
        assert node is not None
        await cluster.wait_until_alike()
        assert node.log.log_start_offset > first.base_offset
        # It becomes the leader, and takes the batch for what it is.
        other = next(id for id in cluster.voter_ids if id not in (leader.key.id, follower))
        cluster.machines[other].kill()
        await trio.sleep(0.1)
        await cluster.machines[leader.key.id].stop()
        await cluster.machines[other].start()
        new = await cluster.wait_for_leader(other_than=leader)
        assert new.key.id in (follower, other)
        async with RawClient.connected(cluster, new.key.id) as client:
            again = await client.produce(retried)
        assert (again.error, again.base_offset) == (ErrorCode.none, first.base_offset)

    on_machines(Machines(), test, settings=KEEP_NOTHING)


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_replicas_write_the_same_bytes(kraft_version: int) -> None:
    """Whether a replica began with the log or with an earlier snapshot (invariant EqualStates)."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append(values(0, 5))
        first = await leader.take_snapshot()
        restarted = cluster.others(leader)[0].key.id
        await cluster.nodes[restarted].append(values(5, 5))
        await cluster.wait_until_alike()
        await cluster.nodes[restarted].take_snapshot()
        await cluster.machines[restarted].stop()
        await cluster.machines[restarted].start()
        await leader.append(values(10, 5))
        await cluster.wait_until_alike()
        await trio.sleep(0.1)
        ids = {await node.take_snapshot() for node in cluster.nodes.values()}
        (snapshot_id,) = ids
        assert snapshot_id is not None
        assert snapshot_id != first
        contents = {
            cluster.machines[id].disk.peek(node.log.snapshots.path(snapshot_id)) for id, node in cluster.nodes.items()
        }
        assert len(contents) == 1
        assert None not in contents
        state = leader.log.snapshots.control_state(snapshot_id)
        assert (state.kraft_version, state.voters) == (kraft_version, leader.view.voters if kraft_version else None)

    on_machines(Machines(), test, kraft_version=kraft_version)


def test_a_reader_below_the_logs_start_hears_of_it() -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        for number in range(0, 100, 10):
            await node.append(values(number, 10))
        await node.take_snapshot()
        assert node.log.log_start_offset > 0
        with pytest.raises(OffsetOutOfRangeError):
            await anext(node.committed(0))
        seen = await anext(node.committed(node.log.log_start_offset))
        assert seen.offset == node.log.log_start_offset

    on_machines(Machines(), test, voters=1, settings=KEEP_NOTHING)


@on_cluster(voters=1)
async def test_a_node_without_an_application_of_that_kind_takes_none(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    with pytest.raises(ValueError, match="take_snapshot: the node was opened without state_machine= or snapshots="):
        await node.take_snapshot()


def test_a_stopped_node_takes_none() -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        await cluster.machines[1].stop()
        with pytest.raises(NodeClosedError):
            await node.take_snapshot()

    on_machines(Machines(), test, voters=1)


async def test_snapshots_without_what_makes_the_state_are_refused() -> None:
    config = parse_config(
        {
            "node.id": "1",
            "process.roles": "controller",
            "listeners": "CONTROLLER://localhost:9093",
            "log.dirs": "/nowhere",
            "controller.listener.names": "CONTROLLER",
        }
    ).config
    with pytest.raises(ValueError, match="snapshots: given without on_commit"):
        async with open_node(config, snapshots=RememberedValues()):
            pass
