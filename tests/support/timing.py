"""Exact times, for tests that measure them."""

from __future__ import annotations

from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.latency import Latency


def set_timing(cluster: Cluster, *, latency_s: float = 0.0, sync_s: float = 0.0) -> None:
    """Let every message and every fsync take that long from now on."""
    cluster.network.set_default_link(latency=Latency.constant(latency_s))
    for machine in cluster.machines.values():
        machine.disk.sync_latency = lambda: sync_s
