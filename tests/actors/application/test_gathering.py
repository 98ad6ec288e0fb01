"""Appends that overlap share batches; those that do not are never delayed."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from kraft_trio.node import Node
from kraft_trio.simulation import Cluster, Setup, simulate
from tests.support.on_cluster import on_cluster

GATHER_MS = 50


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
