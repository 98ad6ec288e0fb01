"""Everything that differs between production and simulation.

See docs/explanation/decisions.md#tests-run-the-node-that-ships.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from typing import Any

import attrs

from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.record_thread import OffLoop, RecordThread
from kraft_trio.storage.disk.syncs_in_place import SyncsInPlace
from kraft_trio.system import clocks
from kraft_trio.wire.network import Network


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _unwatched(_node: object) -> None:
    pass


def _ignored(_error: Exception) -> None:
    pass


def _unchanged(on_commit: Any, snapshots: Any) -> Any:
    return on_commit, snapshots


@attrs.frozen
class Environment:
    """Network, disk, randomness and clocks of a node.  Durations come from Trio's clock, except for read leases."""

    network: Network
    disk: Disk
    random: random.Random = attrs.field(factory=random.Random)
    wall_clock_ms: Callable[[], int] = _system_clock_ms
    """Milliseconds since 1970, for what a node writes or reports: timestamps, request ids, traces, events and metrics.
    No timeout of the quorum depends on it."""
    clock_s: Callable[[], float] = clocks.clock_s
    """Seconds on a clock that never stops or jumps, for read leases only."""
    secret_bits: Callable[[int], int] = secrets.randbits
    """Returns the given number of unguessable random bits, for the ids of producers, requests, processes and
    witness incarnations."""
    has_virtual_time: bool = False
    """Whether time is virtual, so that CPU time means nothing."""
    watch: Callable[[Any], object] = _unwatched
    """Called with the node before any part of it runs.  The simulator observes the node through this."""
    applying: Callable[[Any, Any], Any] = _unchanged
    """Given `on_commit` and the snapshots of the node's state machine, or None; returns what the node calls instead.
    The simulator observes the state machine through this."""
    unexpected: Callable[[Exception], object] = _ignored
    """Called with each error that ended a request but not the node.  It makes a simulated run fail."""
    off_loop: OffLoop = attrs.field(factory=RecordThread)
    """The place where large or compressed records are checked and decoded."""

    syncs_in_place: SyncsInPlace | None = None
    """Whether the disk is so fast that a follower waits for it in place; None if it never does."""

    @classmethod
    def real(cls) -> Environment:
        """TCP, the file system, a randomly seeded generator and the system's clock."""
        from kraft_trio.storage.disk.real_disk import RealDisk
        from kraft_trio.wire.tcp_network import TcpNetwork

        return cls(network=TcpNetwork(), disk=RealDisk(), syncs_in_place=SyncsInPlace())
