"""Whole clusters in one process, in virtual time, with faults and checked by invariants.

See docs/explanation/simulation.md.

`simulate` runs your function against a `Cluster` of real nodes over a simulated network and simulated disks.
"""

from kraft_trio.simulation.cluster import Cluster, simulate
from kraft_trio.simulation.setup import Setup
from kraft_trio.simulation.violation import InvariantViolated, Violation

__all__ = ["Cluster", "InvariantViolated", "Setup", "Violation", "simulate"]
