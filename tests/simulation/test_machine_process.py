"""Processes of a simulated machine: one that is killed while it opens its directory has been started all the same."""

from __future__ import annotations

import pytest
import trio

from kraft_trio.simulation import Cluster, simulate


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_a_process_that_dies_while_opening_can_be_started_again(how: str) -> None:
    async def main(cluster: Cluster) -> None:
        machine = cluster.machines[1]
        found: list[object] = []

        async def start() -> None:
            found.append(await machine.start())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            while not machine.is_running:
                await trio.lowlevel.checkpoint()
            assert machine.node is None
            getattr(machine, how)()
        assert found == [None]
        assert machine.has_ended
        assert await machine.start() is machine.node
        assert machine.is_running

    simulate(main, voters=1, started=())
