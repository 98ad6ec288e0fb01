"""Every kind of random fault there is: imports the modules that register them."""

from __future__ import annotations

from kraft_trio.simulation import faults_disk, faults_membership, faults_network, faults_process, faults_snapshots
from kraft_trio.simulation.timeline import FAULT_KINDS

__all__ = ["FAULT_KINDS", "FAULT_MODULES"]

FAULT_MODULES = (faults_process, faults_disk, faults_network, faults_membership, faults_snapshots)
