"""Random edits of the static voters, by an operator who goes back if a node would refuse: nothing acknowledged is lost.

The invariants of the simulator say so.  Nodes are killed in between, and often a change commits nothing.  The operator
asks all nodes before one starts, as `kraft storage info` does: a node that was down for earlier changes knows less.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
import trio

from kraft_trio.cli.directory.static_voters_recovery import refusal_of_static_voters
from kraft_trio.errors import KraftError
from kraft_trio.simulation import Cluster, Setup
from tests.support import sizes
from tests.support.on_cluster import run_on_cluster

NODES = (1, 2, 3, 4)
EDITS = 10
SEEDS = range(24)


async def append(cluster: Cluster, value: bytes) -> None:
    """Append a value if there is a leader soon."""
    with suppress(trio.TooSlowError, KraftError):
        leader = await cluster.wait_for_leader(within_s=5)
        with trio.fail_after(5):
            await leader.append([value])


async def stop_all(cluster: Cluster, source: random.Random) -> None:
    for machine in cluster.machines.values():
        if source.random() < 0.5:
            machine.kill()
            await machine.wait_until_ended()
        elif machine.is_running:
            await machine.stop()


async def edit(cluster: Cluster, voters: tuple[int, ...]) -> bool:
    """Write the voters into all files.  Returns whether all nodes accept them."""
    refusals = []
    for node_id, machine in cluster.machines.items():
        cluster.write_static_voters(node_id, voters)
        machine.disk.is_attached = True
        refusals.append(await refusal_of_static_voters(machine.disk, machine.config))
    return not any(refusals)


@pytest.mark.parametrize("seed", sizes.part(SEEDS, len(SEEDS)))
def test_edits_lose_nothing(seed: int) -> None:
    source = random.Random(f"edits-{seed}")
    first = tuple(sorted(source.sample(NODES, source.randint(1, 3))))

    async def edits(cluster: Cluster) -> None:
        present = first
        await cluster.wait_for_leader()
        for number in range(EDITS):
            for _ in range(source.randint(0, 2)):
                await append(cluster, b"%d" % number)
            await stop_all(cluster, source)
            wanted = tuple(sorted(set(present) ^ {source.choice(NODES)})) or present
            if await edit(cluster, wanted):
                present = wanted
            else:
                assert await edit(cluster, present), "the voters of before are never refused"
            for machine in source.sample(list(cluster.machines.values()), len(NODES)):
                if source.random() < 0.6:
                    await machine.start()
            await trio.sleep(source.choice((0, 3, 6)))

    observers = tuple(id for id in NODES if id not in first)
    run_on_cluster(edits, Setup(seed=seed, kraft_version=0, voters=first, observers=observers, started=first))
