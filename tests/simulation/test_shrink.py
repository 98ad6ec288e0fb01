"""Shrinking: what is left is what it takes, by the same rule, still fair, and found in a bounded number of runs."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from kraft_trio.simulation.campaign.outcome import Failure, Outcome
from kraft_trio.simulation.campaign.shrink import MOST_RUNS, shrink
from kraft_trio.simulation.faults.nemesis import PlanOptions, is_fair, make_plan
from kraft_trio.simulation.faults.plan import Plan, TimedStep
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import disk, network, process

Rule = Callable[[Plan], str | None]
"""Returns the rule by which a plan fails, or None if it passes."""


@attrs.define
class FakeRuns:
    """Runs that fail by a rule of the test's, one second of virtual time after the last fault."""

    rule: Rule
    plans: list[Plan] = attrs.field(factory=list)

    def __call__(self, plan: Plan) -> Outcome:
        self.plans.append(plan)
        rule = self.rule(plan)
        time_s = max((fault.at_us for fault in plan.faults), default=0) / 1e6 + 1
        failure = None if rule is None else Failure(rule, "title", time_s, ("a", "b"))
        return Outcome(plan.seed, failure, time_s, 0.0, "")


def shrunk(plan: Plan, rule: Rule, **options: int) -> tuple[Plan, FakeRuns]:
    runs = FakeRuns(rule)
    result = shrink(plan, runs(plan), runs, **options)  # type: ignore[arg-type]
    assert result.outcome.failure is not None
    assert result.outcome.seed == result.plan.seed
    assert result.runs == len(runs.plans) - 1
    return result.plan, runs


def steps_of(plan: Plan) -> list[Step]:
    return [fault.step for fault in plan.faults]


def contains(plan: Plan, *steps: Step) -> bool:
    """Whether these steps are in the plan, in this order."""
    rest = iter(steps_of(plan))
    return all(step in rest for step in steps)


def big_plan(*steps: Step, voters: tuple[int, ...] = (1, 2, 3, 4, 5)) -> Plan:
    """Those steps, each between a hundred others."""
    noise = [
        step
        for number in range(25)
        for step in (process.kill((1,)), network.isolate(number % 5 + 1), network.heal(), process.start((1,)))
    ]
    mixed = [step for wanted in steps for step in (*noise, wanted)] + noise
    faults = tuple(TimedStep(137_000 * index, step) for index, step in enumerate(mixed))
    header = Header(seed=7, voters=voters, observers=(8, 9), settings=(("controller.quorum.append.linger.ms", "1"),))
    return Plan(header=header, clients=4, duration_us=faults[-1].at_us + 1_000_000, faults=faults)


def test_only_what_it_takes_is_left() -> None:
    wanted = (process.crash((2,), "reordered"), network.cut(((2, 3), (4,)), silent=True))
    plan, runs = shrunk(big_plan(*wanted), lambda plan: "invariant 7" if contains(plan, *wanted) else None)
    assert steps_of(plan) == list(wanted)
    assert plan.header == Header(seed=7, voters=(2, 3, 4))
    assert plan.clients == 0
    assert len(runs.plans) < MOST_RUNS


def test_steps_become_simpler_and_times_rounder() -> None:
    def rule(plan: Plan) -> str | None:
        hit = [step for step in steps_of(plan) if step.kind is process.crash and 3 in step.node_ids]
        return "invariant 1" if hit and contains(plan, network.heal()) else None

    plan, _ = shrunk(big_plan(process.crash((1, 3, 2), "reordered"), network.heal()), rule)
    assert sorted(step.text for step in steps_of(plan)) == ["crash 3", "heal"]
    assert all(fault.at_us % 1_000_000 == 0 for fault in plan.faults)
    assert plan.header.voters == (3,)


def test_clients_become_less_busy() -> None:
    plan, _ = shrunk(
        Plan(header=Header(), clients=3, clients_every_us=50_000), lambda plan: "x" if plan.clients == 3 else None
    )
    assert plan.clients_every_us == 1_000_000


def test_another_rule_is_another_bug() -> None:
    wanted = network.isolate(3, silent=True)

    def rule(plan: Plan) -> str | None:
        if contains(plan, wanted):
            return "invariant 7"
        return "invariant 9" if plan.faults else None

    plan, _ = shrunk(big_plan(wanted), rule)
    assert steps_of(plan) == [wanted]


def test_the_faulty_time_ends_where_the_rule_is_violated() -> None:
    wanted = network.isolate(3, silent=True)
    plan, _ = shrunk(big_plan(wanted), lambda plan: "invariant 7" if contains(plan, wanted) else None)
    assert plan.duration_us == plan.faults[-1].at_us + 1_001_000


def test_a_smaller_plan_may_need_another_seed() -> None:
    def rule(plan: Plan) -> str | None:
        return "invariant 7" if contains(plan, network.heal()) and plan.seed % 3 == len(plan.faults) % 3 else None

    faults = tuple(TimedStep(1000 * index, network.heal()) for index in range(7))
    plan, _ = shrunk(Plan(header=Header(seed=7), faults=faults), rule)
    assert len(plan.faults) == 1
    assert plan.seed % 3 == 1


def test_no_majority_loses_its_disks_on_the_way() -> None:
    """With fewer voters, two rotten disks would be too many: what then fails is no bug."""
    wanted = (disk.rot(1), disk.rot(2))
    plan, runs = shrunk(big_plan(*wanted), lambda plan: "invariant 7" if contains(plan, *wanted) else None)
    assert steps_of(plan) == list(wanted)
    assert plan.header.voters == (1, 2, 3, 4, 5)
    assert all(map(is_fair, runs.plans))


def test_it_ends_after_so_many_runs() -> None:
    wanted = network.isolate(3, silent=True)
    plan, runs = shrunk(big_plan(wanted), lambda plan: "x" if contains(plan, wanted) else None, most_runs=10)
    assert len(runs.plans) == 11
    assert contains(plan, wanted)


def test_progress_is_told_after_each_run() -> None:
    told: list[tuple[int, int]] = []
    runs = FakeRuns(lambda plan: "x" if plan.faults else None)
    plan = big_plan()
    result = shrink(plan, runs(plan), runs, on_progress=lambda best, count: told.append((len(best.faults), count)))
    assert [count for _, count in told] == list(range(1, result.runs + 1))
    sizes = [size for size, _ in told]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


def test_a_plan_that_does_not_fail_is_refused() -> None:
    plan = make_plan(4, PlanOptions())
    with pytest.raises(ValueError, match="seed 4: it did not fail; expected a plan that does"):
        shrink(plan, FakeRuns(lambda _plan: None)(plan), FakeRuns(lambda _plan: None))
