"""The clocks of all nodes, and by how much they may drift."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs

from scripts.linearizability.clock_file import DURATIONS, LEASES, ClockFile

DRIFT_PPM: Final = 100_000
"""The bound that nodes are configured with, and which their clocks use up."""
ALMOST_STOPPED: Final = 0.02
"""The pace of a clock that drifts far more than that."""
_WALL_JUMP_S: Final = 60.0
"""Nodes refuse the request ids of a client whose clock is five minutes ahead of theirs (`AHEAD_MS`)."""


@attrs.frozen
class Clocks:
    by_id: dict[int, ClockFile]
    slowest: float
    """The pace of the slowest clock.  The fastest one is never faster than the configuration allows."""
    fastest: float

    @classmethod
    def create(cls, folder: Path, node_ids: Iterable[int], *, is_excessive: bool = False) -> Clocks:
        """Clocks that all show the machine's time at first."""
        drift = DRIFT_PPM / 1e6
        by_id = {node_id: ClockFile.create(cls.path(folder, node_id)) for node_id in node_ids}
        return cls(by_id, ALMOST_STOPPED if is_excessive else 1 - drift, 1 + drift)

    @staticmethod
    def path(folder: Path, node_id: int) -> Path:
        """Where a node's process finds its clock."""
        return folder / f"node-{node_id}.clock"

    def change(self, source: random.Random) -> None:
        """Every clock continues at another pace within the configured bound, and every wall clock jumps."""
        drift = self.fastest - 1
        for clock in self.by_id.values():
            pace = source.choice((1 - drift, 1 + drift, source.uniform(1 - drift, 1 + drift)))
            clock.set(pace, source.uniform(-_WALL_JUMP_S, _WALL_JUMP_S))

    def slow_down(self, node_id: int) -> None:
        """One node's clock becomes the slowest, and the others the fastest."""
        for other, clock in self.by_id.items():
            clock.set(self.slowest if other == node_id else self.fastest)

    def are_used(self, node_ids: Iterable[int]) -> bool:
        """Whether these nodes' processes have measured durations with the present paces."""
        return all(self.by_id[node_id].is_used(DURATIONS) for node_id in node_ids)

    def times_leases(self, node_id: int) -> bool:
        """Whether the node's process has timed read leases with its present pace."""
        return self.by_id[node_id].is_used(LEASES)
