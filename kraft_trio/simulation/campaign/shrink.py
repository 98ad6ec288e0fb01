"""Shrinking: from a failing run to a smaller one that breaks the same rule.

One seed decides everything in a run.  If a fault is left out, later timeouts and latencies differ.  So each smaller
plan is tried with several seeds, and the seed that fails is kept with the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import attrs

from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.faults.nemesis import is_fair
from kraft_trio.simulation.faults.plan import MILLISECOND_US, Plan, TimedStep
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps.runs import USUAL_PAUSE_US

T = TypeVar("T")

SEEDS_TRIED: Final = 3
"""Seeds to try for each smaller plan."""

MOST_RUNS: Final = 600
"""The number of runs after which shrinking stops."""


@attrs.frozen
class Shrunk:
    """The smallest failing plan that was found, with its outcome."""

    plan: Plan
    outcome: Outcome
    runs: int


def shrink(
    plan: Plan,
    outcome: Outcome,
    run: Callable[[Plan], Outcome],
    *,
    most_runs: int = MOST_RUNS,
    on_progress: Callable[[Plan, int], object] = lambda _plan, _runs: None,
) -> Shrunk:
    """Shrink a failing plan as far as possible; `outcome` is its outcome.

    The broken rule stays the same.  `on_progress` is called after each run with the smallest plan so far and the number
    of runs.  Raises ValueError if the outcome has no failure.
    """
    if outcome.failure is None:
        raise ValueError(f"seed {plan.seed}: it did not fail; expected a plan that does")
    return _Shrinking(run, most_runs, on_progress, plan, outcome).smallest()


@attrs.define
class _Shrinking:
    run: Callable[[Plan], Outcome]
    most_runs: int
    on_progress: Callable[[Plan, int], object]
    plan: Plan
    outcome: Outcome
    runs: int = 0

    def smallest(self) -> Shrunk:
        before = None
        while before != self.plan and self.runs < self.most_runs:
            before = self.plan
            self._end_early()
            self._drop_faults()
            for smaller in (_fewer_nodes, _fewer_clients, _fewer_settings, _simpler_steps, _rounder_times):
                self._try_each(smaller)
        return Shrunk(self.plan, self.outcome, self.runs)

    def _fails(self, candidate: Plan) -> bool:
        """Whether the plan breaks the same rule with any of the seeds; it then becomes the smallest plan."""
        assert self.outcome.failure is not None
        if not is_fair(candidate):
            return False
        for offset in range(SEEDS_TRIED):
            if self.runs >= self.most_runs:
                return False
            tried = attrs.evolve(candidate, header=attrs.evolve(candidate.header, seed=self.plan.seed + offset))
            outcome = self.run(tried)
            self.runs += 1
            fails = outcome.failure is not None and outcome.failure.is_of(self.outcome.failure)
            if fails:
                self.plan, self.outcome = tried, outcome
            self.on_progress(self.plan, self.runs)
            if fails:
                return True
        return False

    def _end_early(self) -> None:
        """Drop the faults after the violation, if it happened before the recovery."""
        assert self.outcome.failure is not None
        end_us = (int(self.outcome.failure.time_s * 1000) + 1) * MILLISECOND_US
        if end_us < self.plan.duration_us:
            faults = tuple(fault for fault in self.plan.faults if fault.at_us < end_us)
            self._fails(attrs.evolve(self.plan, duration_us=end_us, faults=faults))

    def _drop_faults(self) -> None:
        """Leave out faults, many at once first (ddmin by Zeller and Hildebrandt, complements only)."""
        size = len(self.plan.faults)
        while size >= 1 and self.plan.faults:
            position = 0
            while position < len(self.plan.faults):
                faults = self.plan.faults
                left = faults[:position] + faults[position + size :]
                if not self._fails(attrs.evolve(self.plan, faults=left)):
                    position += size
            size //= 2

    def _try_each(self, smaller: Callable[[Plan], Iterator[Plan]]) -> None:
        """Replace the plan by its first smaller variant that fails, until no variant fails."""
        while any(self._fails(candidate) for candidate in smaller(self.plan)):
            pass


def _fewer_nodes(plan: Plan) -> Iterator[Plan]:
    """Variants without one node and without the faults that name it."""
    header = plan.header
    for node in reversed(header.nodes):
        voters = tuple(other for other in header.voters if other != node)
        if voters:
            observers = tuple(other for other in header.observers if other != node)
            faults = tuple(fault for fault in plan.faults if node not in fault.step.node_ids)
            yield attrs.evolve(plan, header=attrs.evolve(header, voters=voters, observers=observers), faults=faults)


def _fewer_clients(plan: Plan) -> Iterator[Plan]:
    for clients in range(plan.clients):
        yield attrs.evolve(plan, clients=clients)
    if plan.clients_every_us < USUAL_PAUSE_US:
        yield attrs.evolve(plan, clients_every_us=USUAL_PAUSE_US)


def _fewer_settings(plan: Plan) -> Iterator[Plan]:
    for left in _without_one(plan.header.settings):
        yield attrs.evolve(plan, header=attrs.evolve(plan.header, settings=left))


def _simpler_steps(plan: Plan) -> Iterator[Plan]:
    """Variants in which one step names fewer nodes or lacks one of its options."""
    for index, fault in enumerate(plan.faults):
        for step in _simpler(fault.step):
            yield _with_fault(plan, index, attrs.evolve(fault, step=step))


def _simpler(step: Step) -> Iterator[Step]:
    for field in step.kind.fields:
        value = step.values[field.name]
        if field.name == "nodes" and len(value) > 1:
            for left in _without_one(value):
                yield step.with_value("nodes", left)
        elif field.is_optional and value != field.default:
            yield step.with_value(field.name, field.default)


def _rounder_times(plan: Plan) -> Iterator[Plan]:
    """Variants in which the time of one step is rounded up, at most to that of the next step."""
    for unit_us in (1000 * MILLISECOND_US, 100 * MILLISECOND_US):
        for index, fault in enumerate(plan.faults):
            rounded_us = -(-fault.at_us // unit_us) * unit_us
            next_us = plan.faults[index + 1].at_us if index + 1 < len(plan.faults) else plan.duration_us
            if fault.at_us < rounded_us <= next_us:
                yield _with_fault(plan, index, attrs.evolve(fault, at_us=rounded_us))


def _with_fault(plan: Plan, index: int, fault: TimedStep) -> Plan:
    return attrs.evolve(plan, faults=(*plan.faults[:index], fault, *plan.faults[index + 1 :]))


def _without_one(values: Sequence[T]) -> Iterator[tuple[T, ...]]:
    for index in range(len(values)):
        yield (*values[:index], *values[index + 1 :])
