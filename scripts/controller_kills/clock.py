"""Measures for how long no controller was active: by writes that never stop."""

from __future__ import annotations

import itertools
from typing import Final

import trio

from harness.witness_cluster import KAFKAS, WitnessCluster

EVERY_S: Final = 0.25
PATIENCE_S: Final = 2.0


class Writer:
    """Writes one value after another to all controllers.  The active one commits it."""

    def __init__(self, cluster: WitnessCluster) -> None:
        self._cluster = cluster
        self.acknowledged: list[str] = []
        self.active = 0
        """The controller that has acknowledged last."""
        self.acknowledged_s = trio.current_time()
        """When it did."""
        self.wrote = trio.lowlevel.ParkingLot()
        """Wakes its waiters at each acknowledgement."""
        self.longest_gap_s = 0.0
        """The longest time without an acknowledgement since `forget_gap`."""

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
            self._note_gap()
            self.acknowledged_s = trio.current_time()
            self.wrote.unpark_all()
            others.cancel()

    def _note_gap(self) -> None:
        self.longest_gap_s = max(self.longest_gap_s, self.gap_s)

    @property
    def gap_s(self) -> float:
        """How long nothing has been acknowledged."""
        return trio.current_time() - self.acknowledged_s

    def forget_gap(self) -> float:
        """Returns the longest gap, the present one included, and begins to look for the next one."""
        self._note_gap()
        longest_s, self.longest_gap_s = self.longest_gap_s, 0.0
        return longest_s
