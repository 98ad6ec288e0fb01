"""Appends that overlap share batches; those that do not are never delayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
import trio.testing

from kraft_trio.actors.application.appender import ENOUGH
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.errors import NodeClosedError, OutcomeUnknownError, RefusedError
from kraft_trio.idempotent_producer import BegunBatch, IdempotentProducer
from kraft_trio.messages import ProduceReceived
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster, Setup, simulate
from kraft_trio.simulation.deterministic import VirtualClock
from kraft_trio.simulation.violation import InvariantViolated
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster

GATHER_MS = 50
CALLERS = 100


def begun_at_ms(node: Node) -> list[int]:
    """When each data batch of its log was made."""
    batches = node.log.iter_batches(node.log.log_start_offset, node.log.end_offset)
    return [header.max_timestamp_ms for header, _ in batches if not header.is_control]


async def append_at_a_rate(node: Node, count: int, interval_s: float) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(node.append, [b"%d" % number])
            await trio.sleep(interval_s)


@on_cluster(settings={"kraft.append.gather.ms": str(GATHER_MS)})
async def test_while_appends_overlap_batches_begin_so_far_apart(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    for node in (leader, cluster.others(leader)[0]):
        before = len(begun_at_ms(node))
        await append_at_a_rate(node, 300, 0.0005)
        await cluster.wait_until_alike()
        begun = begun_at_ms(node)[before:]
        # The second batch has those that came while the first, of one request, was under way.
        assert 3 <= len(begun) < 12
        assert all(later - earlier >= GATHER_MS for earlier, later in pairwise(begun[1:]))


@on_cluster(settings={"kraft.append.gather.ms": "0"})
async def test_without_it_a_batch_begins_when_the_one_before_is_committed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await append_at_a_rate(leader, 300, 0.0005)
    assert len(begun_at_ms(leader)) > 12


def time_taken(gather_ms: int, callers: int) -> float:
    """The virtual time in which so many callers append ten records each, one after another."""
    taken: list[float] = []

    async def call(node: Node) -> None:
        for _ in range(10):
            await node.append([b"x"])

    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"first"])
        began_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(callers):
                nursery.start_soon(call, leader)
        taken.append(trio.current_time() - began_s)

    simulate(main, Setup(seed=7, settings={"kraft.append.gather.ms": str(gather_ms)}))
    return taken[0]


@pytest.mark.parametrize("callers", [1, 2, 20])
def test_callers_that_wait_for_each_append_are_not_delayed(callers: int) -> None:
    assert time_taken(GATHER_MS, callers) == time_taken(0, callers)


class BusyCallers:
    """Callers that append in one turn of the event loop, and take so long each before they do."""

    def __init__(self, node: Node, each_s: float) -> None:
        self.node = node
        self.each_s = each_s
        self.ends: list[int] = []
        """The end of the log when each had its turn."""
        self.refused: list[bytes] = []

    async def call(self, value: bytes, times: int = 1) -> None:
        for _ in range(times):
            await self._call_once(value)

    async def _call_once(self, value: bytes) -> None:
        self.ends.append(self.node.log.end_offset)
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, VirtualClock)
        clock.now += self.each_s
        try:
            await self.node.append([value])
        except RefusedError:
            self.refused.append(value)

    async def share_a_batch(self) -> None:
        """After that, the first of the next requests is not sent alone."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.node.append, [b"x"])
            nursery.start_soon(self.node.append, [b"y"])
            nursery.start_soon(self.node.append, [b"z"])

    async def run(self, times: int = 1) -> list[bytes]:
        """Have them all call, and return their values."""
        await self.share_a_batch()
        values = [b"%d" % number for number in range(CALLERS)]
        async with trio.open_nursery() as nursery:
            for value in values:
                nursery.start_soon(self.call, value, times)
        return values


def sizes_of(node: Node, batches: int) -> list[int]:
    """The sizes of its last batches, in records."""
    found = node.log.iter_batches(node.log.log_start_offset, node.log.end_offset)
    return [header.record_count for header, _ in found][-batches:]


@on_cluster()
async def test_a_long_turn_of_callers_begins_a_batch_before_it_ends(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    gather_s = leader.config.append_gather_ms / 1000
    callers = BusyCallers(leader, 1.5 * gather_s / ENOUGH)
    values = await callers.run()
    assert callers.ends[0] < callers.ends[-1]
    assert sizes_of(leader, 2) == [ENOUGH, CALLERS - ENOUGH], "the second one when the first is committed"
    assert sorted(values_in(leader)[-CALLERS:]) == sorted(values)


@on_cluster()
async def test_callers_that_are_slow_to_come_again_do_not_join_those_that_wait(cluster: Cluster) -> None:
    """So one half of them works while the other waits for its commit."""
    leader = await cluster.wait_for_leader()
    callers = BusyCallers(leader, 0.001)
    await callers.run(times=2)
    assert sizes_of(leader, 4) == [ENOUGH, CALLERS - ENOUGH] * 2


@pytest.mark.parametrize("each_s", [0.0, 1e-6])
@on_cluster()
async def test_a_short_turn_of_callers_has_one_batch(cluster: Cluster, each_s: float) -> None:
    leader = await cluster.wait_for_leader()
    callers = BusyCallers(leader, each_s)
    await callers.run()
    assert callers.ends[0] == callers.ends[-1]
    assert sizes_of(leader, 1) == [CALLERS]


@on_cluster(settings={"controller.quorum.append.linger.ms": "5"})
async def test_batches_that_linger_are_not_begun_by_callers(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await BusyCallers(leader, 0.001).run()
    assert sizes_of(leader, 1) == [CALLERS]


@on_cluster()
async def test_a_follower_gathers_as_usual(cluster: Cluster) -> None:
    follower, _ = cluster.others(await cluster.wait_for_leader())
    values = await BusyCallers(follower, 0.001).run()
    await cluster.wait_until_alike()
    assert sorted(values_in(follower)[-CALLERS:]) == sorted(values)


@on_cluster()
async def test_what_a_full_batch_leaves_is_appended_too(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    callers = BusyCallers(leader, 0.001)
    fit = ENOUGH - 2
    large = bytes(leader.config.max_message_bytes // (fit + 1))
    async with trio.open_nursery() as nursery:
        for number in range(2 * ENOUGH):
            nursery.start_soon(callers.call, b"%02d" % number + large)
    assert max(sizes_of(leader, 3)) == fit
    assert len(values_in(leader)) == 2 * ENOUGH


async def keep_coming(callers: BusyCallers) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(10 * CALLERS):
            nursery.start_soon(callers.call, b"other %d" % number)
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("blame", [{b"57"}, {b"%d" % number for number in range(7, CALLERS, 10)}])
@on_cluster()
async def test_only_the_values_that_are_to_blame_are_refused(
    cluster: Cluster, blame: set[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of batches that the callers began.  Each request of a refused batch is sent alone, before any other."""
    leader = await cluster.wait_for_leader()
    produce = LeaderReplication._produce
    sizes: list[tuple[int, bool]] = []

    def refuse(self: LeaderReplication, message: ProduceReceived) -> None:
        is_refused = any(bytes([2 * len(value)]) + value + b"\x00" in message.records for value in blame)
        sizes.append((message.header.record_count, is_refused))
        if is_refused:
            message.reply.answer(ProducePartitionResponse.failed(ErrorCode.invalid_record, "of no use"))
        else:
            produce(self, message)

    callers = BusyCallers(leader, 0.001)
    await callers.run()
    assert not callers.refused
    monkeypatch.setattr(LeaderReplication, "_produce", refuse)
    async with trio.open_nursery() as others:
        others.start_soon(keep_coming, callers)
        values = await callers.run(times=2)
    monkeypatch.undo()
    assert callers.refused
    assert set(callers.refused) == blame
    assert any(count > ENOUGH for count, _ in sizes)
    alone = 0
    for count, is_refused in sizes:
        assert count == 1 or not alone
        alone = max(alone - 1, count if is_refused and count > 1 else 0)
    kept = [value for value in values if value not in blame]
    counts = Counter(values_in(leader))
    assert [counts[value] for value in [*kept, *blame]] == [3] * len(kept) + [1] * len(blame)


def test_what_is_raised_in_the_step_of_a_caller_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each caller is answered."""
    begin = IdempotentProducer.begin
    outcomes: Counter[type[Exception]] = Counter()

    def fail(self: IdempotentProducer, records: Sequence[NewRecord]) -> BegunBatch | None:
        if len(records) == ENOUGH:
            raise MemoryError("injected")
        return begin(self, records)

    async def main(cluster: Cluster) -> None:
        callers = BusyCallers(await cluster.wait_for_leader(), 0.001)

        async def call(value: bytes) -> None:
            with pytest.raises((OutcomeUnknownError, NodeClosedError)) as raised:
                await callers.call(value)
            outcomes[raised.type] += 1

        await callers.share_a_batch()
        monkeypatch.setattr(IdempotentProducer, "begin", fail)
        async with trio.open_nursery() as nursery:
            for number in range(CALLERS):
                nursery.start_soon(call, b"%d" % number)

    with pytest.raises(InvariantViolated, match="MemoryError: injected"):
        simulate(main, Setup())
    assert outcomes == {OutcomeUnknownError: ENOUGH, NodeClosedError: CALLERS - ENOUGH}


def test_what_is_raised_in_the_step_of_a_single_caller_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the caller is answered, wherever it waits."""
    answered: list[OutcomeUnknownError] = []

    def fail(_self: IdempotentProducer, _records: Sequence[NewRecord]) -> BegunBatch | None:
        raise MemoryError("injected")

    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"x"])
        await trio.testing.wait_all_tasks_blocked()
        monkeypatch.setattr(IdempotentProducer, "begin", fail)
        with trio.CancelScope(shield=True), trio.move_on_after(60):
            try:
                await leader.append([b"y"])
            except OutcomeUnknownError as error:
                answered.append(error)

    with pytest.raises(InvariantViolated, match="MemoryError: injected"):
        simulate(main, Setup())
    assert answered


@on_cluster()
async def test_callers_may_come_before_the_producer_has_an_id(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    callers = BusyCallers(leader, 0.001)
    async with trio.open_nursery() as nursery:
        for number in range(CALLERS):
            nursery.start_soon(callers.call, b"%d" % number)
    assert sorted(values_in(leader)) == sorted(b"%d" % number for number in range(CALLERS))


@on_cluster(settings={"kraft.append.gather.ms": str(GATHER_MS)})
async def test_a_batch_after_one_that_callers_began_is_gathered(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    callers = BusyCallers(leader, 0.005)
    await callers.run()
    before = len(begun_at_ms(leader))
    async with trio.open_nursery() as nursery:
        for number in range(ENOUGH):
            nursery.start_soon(callers.call, b"%d" % number)
        await trio.lowlevel.checkpoint()
        await append_at_a_rate(leader, CALLERS, 0.0005)
    first, second = begun_at_ms(leader)[before:]
    assert second - first >= GATHER_MS
