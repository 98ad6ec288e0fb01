"""Measures for how long no controller was active: by writes that never stop."""

from __future__ import annotations

import itertools
from typing import Final

import trio

from harness.witness_cluster import KAFKAS, WitnessCluster

EVERY_S: Final = 0.25
PATIENCE_S: Final = 2.0


class Gaps:
    """The times between successes of one kind."""

    def __init__(self) -> None:
        self.count = 0
        self.succeeded_s = trio.current_time()
        """The time of the last success."""
        self.again = trio.lowlevel.ParkingLot()
        """Wakes its waiters at each success."""
        self._longest_s = 0.0

    def succeeded(self) -> None:
        """Note a success."""
        self._note()
        self.count += 1
        self.succeeded_s = trio.current_time()
        self.again.unpark_all()

    def forget(self) -> float:
        """Return the longest gap so far, the present one included, and begin to look for the next one."""
        self._note()
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s

    def _note(self) -> None:
        self._longest_s = max(self._longest_s, trio.current_time() - self.succeeded_s)


class Writer:
    """Writes one value after another to all controllers.  The active one commits it."""

    def __init__(self, cluster: WitnessCluster) -> None:
        self._cluster = cluster
        self.acknowledged: list[str] = []
        self.active = 0
        """The controller that has acknowledged last."""
        self.gaps = Gaps()

    async def run(self) -> None:
        """Write until cancelled."""
        for number in itertools.count():
            async with trio.open_nursery() as nursery:
                for node_id in KAFKAS:
                    if self._cluster.is_running(node_id):
                        nursery.start_soon(self._write, nursery.cancel_scope, node_id, f"{number:08}")
            await trio.sleep(EVERY_S)

    async def _write(self, others: trio.CancelScope, node_id: int, value: str) -> None:
        if await self._cluster.write(node_id, value, PATIENCE_S):
            self.acknowledged.append(value)
            self.active = node_id
            self.gaps.succeeded()
            others.cancel()
