"""`Node.append` on any node: every value takes effect once, whatever happens to leaders and answers."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from kraft_trio.actors.application.state_machine_driver import OnCommit
from kraft_trio.actors.replication.pending_appends import PendingAppends
from kraft_trio.errors import NodeClosedError, OutcomeUnknownError, RecordTooLargeError, StorageFailure
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.segments.recovery_point import RecoveryRecord, decode_recovery_point
from kraft_trio.wire.api import INIT_PRODUCER_ID, PRODUCE
from kraft_trio.wire.apis.fetch import FETCH
from kraft_trio.wire.connection import Connection
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster, run_on_cluster


@pytest.mark.parametrize("through", ["leader", "follower", "observer"])
@on_cluster(observers=1)
async def test_values_appended_together_stand_together(cluster: Cluster, through: str) -> None:
    leader = await cluster.wait_for_leader()
    node = {"leader": leader, "follower": cluster.others(leader)[0], "observer": cluster.nodes[4]}[through]
    offsets = await node.append([b"a", b"b", b"c"])
    assert len(offsets) == 3
    seen = [record async for record in _first(node.committed(0), 3)]
    assert [record.value for record in seen] == [b"a", b"b", b"c"]
    assert [record.offset for record in seen] == list(offsets)


async def _first(records, count):
    async for record in records:
        yield record
        count -= 1
        if not count:
            return


@on_cluster()
async def test_a_lost_answer_is_retried_and_the_value_is_there_once(cluster: Cluster) -> None:
    """The leader has appended it; the second Produce with the same sequence gets the first one's offset."""
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    await follower.append([b"before"])
    asked = cluster.network.requests_sent[cluster.machines[follower.key.id].host, PRODUCE.key]
    cluster.network.lose_answers(PRODUCE, times=2)
    offsets = await follower.append([b"once"])
    assert cluster.network.requests_sent[cluster.machines[follower.key.id].host, PRODUCE.key] == asked + 3
    assert list(await follower.append([b"after"])) == [offsets[-1] + 1]
    assert values_in(leader) == [b"before", b"once", b"after"]


@on_cluster(observers=1)
async def test_a_value_whose_leader_dies_before_the_answer_is_once(cluster: Cluster) -> None:
    """It had committed, so the new leader has it, and with it the producer's sequence."""
    async with trio.open_nursery() as nursery:
        old = await cluster.wait_for_leader()
        observer = cluster.nodes[4]
        await observer.append([b"before"])
        cluster.network.lose_answers(PRODUCE, times=1000)
        nursery.start_soon(observer.append, [b"once"])
        await cluster.wait_until(lambda: b"once" in values_in(old))
        await cluster.wait_until_alike()
        cluster.machines[old.key.id].kill()
        cluster.network.forget_plans()
        new = await cluster.wait_for_leader()
        await observer.append([b"after"])
        assert values_in(new) == [b"before", b"once", b"after"]


@pytest.mark.parametrize("earlier", [(), (b"earlier",)], ids=["first append", "later append"])
@on_cluster()
async def test_a_value_that_was_truncated_is_appended_anew(cluster: Cluster, earlier: tuple[bytes, ...]) -> None:
    """A cut-off leader's own append waits for the next leader, and gets there once."""
    old = await cluster.wait_for_leader()
    for value in earlier:
        await old.append([value])
    cluster.partition({old.key.id}, set(cluster.voter_ids) - {old.key.id})
    offsets: list[int] = []

    async def append() -> None:
        offsets.extend(await old.append([b"once"]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        await cluster.wait_until(lambda: b"once" in values_in(old))
        new = await cluster.wait_for_leader(other_than=old)
        await new.append([b"instead"])
        assert offsets == []
        cluster.heal()
    await cluster.wait_until_alike()
    assert [values_in(node) for node in cluster.nodes.values()] == [[*earlier, b"instead", b"once"]] * 3


@on_cluster()
async def test_a_single_append_takes_no_turn_of_the_appender(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"before"])
    turns = _TurnsOf("Appender.run")
    trio.lowlevel.add_instrument(turns)
    for _ in range(10):
        await leader.append([b"alone"])
    assert turns.count == 0


class _TurnsOf(trio.abc.Instrument):
    def __init__(self, task_name: str) -> None:
        self.count = 0
        self._task_name = task_name

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += self._task_name in task.name


@on_cluster()
async def test_appends_behind_one_that_fails_keep_their_order(cluster: Cluster) -> None:
    """The leader that has taken the first one loses its epoch, and the next leader gets all."""
    old = await cluster.wait_for_leader()
    await old.append([b"before"])
    cluster.partition({old.key.id}, set(cluster.voter_ids) - {old.key.id})
    values = [b"1", b"2", b"3"]
    async with trio.open_nursery() as nursery:
        for value in values:
            nursery.start_soon(old.append, [value])
            await trio.testing.wait_all_tasks_blocked()
        new = await cluster.wait_for_leader(other_than=old)
        cluster.heal()
    assert values_in(new) == [b"before", *values]


@on_cluster()
async def test_every_append_is_answered_when_the_node_stops(cluster: Cluster) -> None:
    """One has been sent, and others wait behind it."""
    old = await cluster.wait_for_leader()
    await old.append([b"before"])
    cluster.partition({old.key.id}, set(cluster.voter_ids) - {old.key.id})
    outcomes: dict[bytes, type[Exception]] = {}

    async def append(value: bytes) -> None:
        try:
            await old.append([value])
        except (OutcomeUnknownError, NodeClosedError) as error:
            outcomes[value] = type(error)

    async with trio.open_nursery() as nursery:
        for value in (b"sent", b"queued", b"queued too"):
            nursery.start_soon(append, value)
            await trio.testing.wait_all_tasks_blocked()
        cluster.machines[old.key.id].kill()
    assert outcomes == {b"sent": OutcomeUnknownError, b"queued": NodeClosedError, b"queued too": NodeClosedError}


@on_cluster(started=(1,))
async def test_appends_wait_for_a_leader(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.nodes[1].append, [b"early"])
        await trio.sleep(10)
        await cluster.machines[2].start()
        leader = await cluster.wait_for_leader()
        await cluster.wait_until(lambda: values_in(leader) == [b"early"])


@on_cluster()
async def test_a_lost_producer_id_is_asked_for_again(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    planned = cluster.network.lose_answers(INIT_PRODUCER_ID)
    await follower.append([b"value"])
    assert planned.times == 0
    assert values_in(leader) == [b"value"]


@on_cluster()
async def test_appends_in_flight_share_batches_and_keep_their_order(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.disk.sync_latency = lambda: 0.01
    leader = await cluster.wait_for_leader()
    values = [b"%d" % number for number in range(100)]
    offsets: dict[bytes, int] = {}

    async def append(value: bytes) -> None:
        (offsets[value],) = await leader.append([value])

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for value in values:
            nursery.start_soon(append, value)
    assert trio.current_time() - begun < 0.1, "a hundred fsyncs of 10 ms would take a second"
    in_log = values_in(leader)
    assert sorted(in_log) == sorted(values)
    assert sorted(offsets, key=lambda value: offsets[value]) == in_log


@on_cluster()
async def test_callers_that_append_again_and_again_share_batches(cluster: Cluster) -> None:
    """Also one that came first, and one that came late."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"before"])
    begun_at = leader.log.end_offset

    async def append() -> None:
        for _ in range(20):
            await leader.append([b"value"])

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(append)
        await trio.sleep(0.001)
        nursery.start_soon(append)
    batches = list(leader.log.iter_batches(begun_at, leader.log.end_offset))
    assert leader.log.end_offset - begun_at == 9 * 20
    assert len(batches) <= 20 + 3


@on_cluster(settings={"message.max.bytes": "1000"})
async def test_values_that_fit_no_batch_are_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    with pytest.raises(RecordTooLargeError, match=r"message\.max\.bytes"):
        await leader.append([bytes(600), bytes(600)])
    assert leader.log.end_offset == end
    await leader.append([bytes(600)])


def test_the_application_sees_each_committed_batch_once_in_order() -> None:
    """Nothing that was not committed: not even on a leader that had appended it."""
    seen: dict[int, list[bytes]] = {1: [], 2: [], 3: []}

    def state_machine(node_id: int) -> OnCommit:
        async def on_commit(records: Sequence[Record]) -> None:
            seen[node_id] += [record.value for record in records]

        return on_commit

    async def test(cluster: Cluster) -> None:
        async with trio.open_nursery() as nursery:
            old = await cluster.wait_for_leader()
            await old.append([b"1"])
            await old.append([b"2", b"3"])
            await cluster.wait_until_alike()
            cluster.partition({old.key.id}, set(cluster.voter_ids) - {old.key.id})
            nursery.start_soon(old.append, [b"5"])
            new = await cluster.wait_for_leader(other_than=old)
            await new.append([b"4"])
            assert seen[old.key.id] == [b"1", b"2", b"3"]
            cluster.heal()
            await cluster.wait_until(lambda: all(len(values) == 5 for values in seen.values()))
            assert set(map(tuple, seen.values())) == {(b"1", b"2", b"3", b"4", b"5")}

    run_on_cluster(test, Setup(on_commit=state_machine))


@pytest.mark.parametrize("through", ["leader", "follower"])
@on_cluster()
async def test_a_producer_that_the_leader_forgot_gets_a_new_id(cluster: Cluster, through: str) -> None:
    leader = await cluster.wait_for_leader()
    node = {"leader": leader, "follower": cluster.others(leader)[0]}[through]
    await node.append([b"before"])
    leader.log.producers.clear()
    await node.append([b"after"])
    assert values_in(leader) == [b"before", b"after"]


@on_cluster(settings={"message.max.bytes": "1000"})
async def test_a_batch_that_only_the_leader_refuses(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    follower.tree.appender._config = attrs.evolve(follower.config, max_message_bytes=5000)
    with pytest.raises(RecordTooLargeError, match="message_too_large"):
        await follower.append([bytes(2000)])
    await follower.append([b"small"])
    assert values_in(leader) == [b"small"]


@on_cluster(settings={"message.max.bytes": "1000"})
async def test_small_appends_that_are_too_large_together(cluster: Cluster) -> None:
    """The follower gathers as much as its own limit allows, and the leader's is lower."""
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    follower.tree.appender._config = attrs.evolve(follower.config, max_message_bytes=5000)
    written = [b"%d" % number * 100 for number in range(20)]
    async with trio.open_nursery() as nursery:
        for value in written:
            nursery.start_soon(follower.append, [value])
    assert sorted(values_in(leader)) == sorted(written)


@pytest.mark.parametrize("failing", ["the write", "the write for want of room, and the cut after it"])
@on_cluster(voters=1)
async def test_a_failed_write_may_have_appended(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Nobody is told that it has not, who would append the value again."""
    leader = await cluster.wait_for_leader()
    machine = cluster.machines[1]
    machine.excuse("its disk fails")
    monkeypatch.setattr(machine.disk.random, "randint", lambda _low, high: high)
    machine.disk.fail("append", name=".log", code=errno.EIO if failing == "the write" else errno.ENOSPC)
    if failing != "the write":
        machine.disk.fail("truncate", name=".log", code=errno.ENOSPC)
    with pytest.raises(OutcomeUnknownError, match="the leader's disk has failed; the batch may be in its log"):
        await leader.append([b"value"], epoch=leader.view.epoch)
    await machine.wait_until_ended()
    assert isinstance(machine.failure, StorageFailure)
    assert values_in(await machine.start()) == [b"value"]


@on_cluster()
async def test_clients_and_the_leader_hear_of_an_append_before_it_is_noted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    acknowledge, begin = PendingAppends.acknowledge_up_to, Connection.begin
    heard: list[str | int] = []

    def noted_by(node_id: int) -> RecoveryRecord:
        disk, directory = cluster.machines[node_id].disk, cluster.nodes[node_id].log.directory
        return decode_recovery_point(disk.peek(f"{directory}/recovery-point") or b"") or RecoveryRecord()

    def acknowledging(self: PendingAppends, high_watermark: int) -> None:
        if self._log is leader.log:
            assert noted_by(leader.key.id).high_watermark == high_watermark - 1
            heard.append("client")
        acknowledge(self, high_watermark)

    async def beginning(self: Connection, api: Any, request: Any) -> None:
        follower = request.replica_id
        if api is FETCH and request.partitions[0].fetch_offset > end_offset and follower not in heard:
            assert noted_by(follower).synced_end_offset == end_offset
            heard.append(follower)
        await begin(self, api, request)

    end_offset = leader.log.end_offset
    monkeypatch.setattr(PendingAppends, "acknowledge_up_to", acknowledging)
    monkeypatch.setattr(Connection, "begin", beginning)
    await leader.append([b"value"])
    assert noted_by(leader.key.id).high_watermark == end_offset + 1
    assert "client" in heard[1:]
