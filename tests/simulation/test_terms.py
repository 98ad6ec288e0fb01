"""Leader-only tasks on every node, under random faults: two terms never overlap in their effect."""

from __future__ import annotations

import random

import pytest
import trio

from kraft_trio.errors import NodeClosedError, NotLeaderError, OutcomeUnknownError
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster, Setup
from tests.support.logs import values_of
from tests.support.on_cluster import run_on_cluster

PACE_S = 0.1


async def lead(node: Node) -> None:
    """A leader-only task: in each of its terms it writes the epoch, as often as it can."""
    try:
        while True:
            async with node.leadership() as term, trio.open_nursery() as nursery:
                while True:
                    nursery.start_soon(write, node, term.epoch)
                    await trio.sleep(PACE_S)
    except NodeClosedError:
        pass


async def write(node: Node, epoch: int) -> None:
    # Shielded: a task that does not notice at once that its term is over must do no harm either.
    with trio.move_on_after(5, shield=True):
        try:
            await node.append([b"%d" % epoch], epoch=epoch)
        except (NotLeaderError, OutcomeUnknownError, NodeClosedError):
            pass


async def disturb(cluster: Cluster, source: random.Random) -> None:
    leader = cluster.leader()
    if leader is None:
        return
    machine, others = cluster.machines[leader.key.id], set(cluster.voter_ids) - {leader.key.id}
    match source.choice(("cut", "cut silently", "kill", "pause", "resign", "transfer")):
        case "cut":
            cluster.partition({leader.key.id}, others)
        case "cut silently":
            cluster.partition({leader.key.id}, others, silent=True)
        case "kill":
            machine.kill()
        case "pause":
            machine.pause()
        case "resign":
            await leader.resign()
        case "transfer":
            with trio.move_on_after(2):
                await leader.transfer_leadership(source.choice(sorted(others)))


def written(node: Node) -> list[tuple[int, int]]:
    """The committed writes in log order: the epoch of the term, and the epoch of the leader that appended it."""
    return [
        (int(value), header.leader_epoch)
        for header, batch in node.log.iter_batches(0, node.log.end_offset)
        for _, value in values_of(batch)
    ]


@pytest.mark.rotating(6)
@pytest.mark.parametrize("seed", range(12))
def test_a_term_has_no_effect_after_the_next_one_has_begun(seed: int) -> None:
    async def run(cluster: Cluster) -> None:
        source = cluster.random("terms")
        running: dict[int, Node] = {}
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                for node_id, node in cluster.nodes.items():
                    if running.get(node_id) is not node:
                        running[node_id] = node
                        nursery.start_soon(lead, node)
                await trio.sleep(source.uniform(0.5, 4))
                await disturb(cluster, source)
                await trio.sleep(source.uniform(0.1, 4))
                cluster.heal()
                for machine in cluster.machines.values():
                    machine.resume()
                    await machine.start()
            nursery.cancel_scope.cancel()
        await cluster.wait_until_alike()
        writes = written(await cluster.wait_for_leader())
        assert len({term for term, _ in writes}) > 3, "several terms must have had an effect"
        assert all(term == epoch for term, epoch in writes)
        assert writes == sorted(writes)

    run_on_cluster(run, Setup(seed=seed))
