"""Mutants of reassignments: what the target belongs to, and which step comes next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from kraft_trio.actors.membership import reassignment
from kraft_trio.actors.snapshots.snapshot_taker import SnapshotTaker
from kraft_trio.protocol.reassignment import HandOver, Remove, Step, next_step
from kraft_trio.protocol.voter_history import VoterHistory

from .mutant import Change, mutant
from .runs import scenario, script
from .snapshots import SETTINGS, appends


@mutant(
    breaks="a step leaves the quorum as tolerant as before",
    found_by=(24,),
    run=scenario("reassign_three_to_three", expects=False),
)
def outgoing_voters_leave_before_newcomers_come() -> Iterable[Change]:
    def removing_first(voters: Any, target: Any, health: Any, leader: Any) -> Step:
        outgoing = sorted(set(voters) - set(target) - {leader})
        return Remove(outgoing[0]) if outgoing else next_step(voters, target, health, leader)

    return [(reassignment, "next_step", removing_first)]


@mutant(
    breaks="a dead newcomer is waited for before a voter leaves",
    found_by=(24,),
    run=scenario("reassign_never_reached", expects=False),
)
def dead_newcomers_are_not_waited_for() -> Iterable[Change]:
    def impatient(voters: Any, target: Any, health: Any, leader: Any) -> Step:
        step = next_step(voters, target, health, leader)
        outgoing = sorted(set(voters) - set(target) - {leader})
        return Remove(outgoing[0]) if outgoing and not isinstance(step, HandOver) else step

    return [(reassignment, "next_step", impatient)]


@mutant(
    breaks="a truncation takes the target back",
    found_by=(15,),
    run=script(
        "a target is set by a leader that is cut off",
        """
        voters 1 2 3
        observers 4
        elect 1
        cut 1 4 | 2 3
        reassign 1 2 3 4 at 1 within 1s
        wait 10s
        heal
        settle
        """,
    ),
)
def a_truncated_target_is_kept() -> Iterable[Change]:
    real = VoterHistory.truncate_to

    def truncate_to(self: Any, offset: int) -> bool:
        target = self.target
        is_dropped = real(self, offset)
        if self._targets.values:
            self._targets.values[-1] = self._targets.newest = target
        return is_dropped

    return [(VoterHistory, "truncate_to", truncate_to)]


_WAITING = (
    "".join(f"set {key} {value}\n" for key, value in SETTINGS.items())
    + """
voters 1 2 3
observers 4 5
elect 1
kill 5
pause 4
reassign 1 2 4 within 1s
kill 4
"""
)
"""A reassignment that waits for a newcomer that is dead."""


@mutant(
    breaks="a snapshot has the target at its end",
    found_by=(15,),
    run=script("a snapshot is taken during a reassignment", f"{_WAITING}take-snapshot 2\nwait 1s\n"),
)
def a_snapshot_loses_the_target() -> Iterable[Change]:
    real = SnapshotTaker._state

    def state(self: Any) -> Any:
        return attrs.evolve(real(self), target_voters=())

    return [(SnapshotTaker, "_state", state)]


@mutant(
    breaks="a loaded snapshot sets the target",
    found_by=(15,),
    run=script(
        "an observer is given a snapshot during a reassignment",
        f"{_WAITING}{appends('a')}take-snapshot 1 2 3\n{appends('b', 2)}start 5\nwait 2s\n",
    ),
)
def a_loaded_snapshot_brings_no_target() -> Iterable[Change]:
    real = VoterHistory.install_snapshot

    def install_snapshot(self: Any, end: int, voters: Any, version: int, removed: Any = (), _target: Any = ()) -> None:
        real(self, end, voters, version, removed)

    return [(VoterHistory, "install_snapshot", install_snapshot)]
