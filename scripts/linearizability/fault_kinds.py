"""All faults by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scripts.linearizability import partitions
from scripts.linearizability.faults import Fault, Faults, name_of

OF_PROCESSES: Final[tuple[Fault, ...]] = (
    Faults.kill_leader,
    Faults.pause_leader,
    Faults.transfer,
    Faults.change_voters,
    Faults.kill_any,
    Faults.resign,
    Faults.pause_any,
    Faults.kill_all,
)
OF_SURROUNDINGS: Final[tuple[Fault, ...]] = (
    partitions.isolate_leader,
    partitions.mute_leader,
    partitions.deafen_leader,
    partitions.reset_leader,
    partitions.part_leader_and_follower,
    partitions.halve,
    Faults.change_clocks,
)
"""Of the network and of clocks."""
UNDER_LEASES: Final[tuple[Fault, ...]] = (
    Faults.pause_leader,
    partitions.isolate_leader,
    partitions.isolate_slow_leader,
)
"""Those that a wrong lease would not survive."""

FAULTS: Final[Mapping[str, Fault]] = {
    name_of(fault): fault for fault in (*OF_PROCESSES, *OF_SURROUNDINGS, *UNDER_LEASES)
}
