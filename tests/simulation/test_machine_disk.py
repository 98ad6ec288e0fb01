"""A process that has ended can no longer change the disk that it had."""

from __future__ import annotations

import pytest

from kraft_trio.simulation import Cluster, simulate
from kraft_trio.simulation.machine import Machine
from kraft_trio.storage.disk.partition_files import PRODUCER_SNAPSHOT, RECOVERY_POINT


@pytest.mark.parametrize("end", [Machine.kill, Machine.crash])
def test_a_killed_or_crashed_process_does_not_close_its_log(end: object) -> None:
    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"value"])
        await cluster.wait_until_alike()
        for machine in cluster.machines.values():
            assert callable(end)
            end(machine)
            names = machine.disk.peek_names(machine.partition_path)
            calls = machine.disk.calls
            await machine.wait_until_ended()
            assert machine.disk.peek_names(machine.partition_path) == names
            assert RECOVERY_POINT in names
            assert not [name for name in names if name.endswith(PRODUCER_SNAPSHOT)], "a clean stop's"
            assert machine.disk.calls == calls
            await machine.start()
        await cluster.wait_until_alike()

    simulate(main)
