"""Mutants of reassignments: what the target belongs to, and which step comes next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraft_trio.actors import reassignment
from kraft_trio.protocol.reassignment import HandOver, Remove, Step, next_step
from kraft_trio.protocol.voter_history import VoterHistory

from .mutant import Change, mutant
from .runs import scenario, script


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
