"""Tests of an application's state machine on a whole quorum, in virtual time: see docs/how-to/test-a-state-machine.md.

`run` runs an asynchronous function in virtual time, and `open_cluster` in it opens a cluster of real nodes.  The
fixture `kraft_cluster` of `kraft_trio.testing.pytest_plugin` does both.
"""

from kraft_trio.simulation.commands.simulated_machine import SimulatedMachine
from kraft_trio.simulation.violation import InvariantViolated
from kraft_trio.testing.virtual_cluster import VirtualCluster, open_cluster, run

__all__ = ["InvariantViolated", "SimulatedMachine", "VirtualCluster", "open_cluster", "run"]
