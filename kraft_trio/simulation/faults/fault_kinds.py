"""Every kind of random fault there is: imports the modules that register them."""

from __future__ import annotations

from kraft_trio.simulation.faults import disk as faults_disk
from kraft_trio.simulation.faults import membership as faults_membership
from kraft_trio.simulation.faults import network as faults_network
from kraft_trio.simulation.faults import process as faults_process
from kraft_trio.simulation.faults import snapshots as faults_snapshots
from kraft_trio.simulation.faults.timeline import FAULT_KINDS

__all__ = ["FAULT_KINDS", "FAULT_MODULES"]

FAULT_MODULES = (faults_process, faults_disk, faults_network, faults_membership, faults_snapshots)
