"""One run of one plan: the same history every time, what goes wrong as a value, and what recovery demands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from kraft_trio.simulation.campaign import seed_run
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import TraceTo, run_plan, run_seed
from kraft_trio.simulation.campaign.shrink import shrink
from kraft_trio.simulation.campaign.watchdog import Stuck
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.faults.nemesis import PlanOptions, make_plan
from kraft_trio.simulation.faults.plan import Plan, TimedStep
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.line import Kind
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import process, runs
from kraft_trio.tracing.events import Trace, TraceEvent
from kraft_trio.tracing.files import open_trace

pytestmark = pytest.mark.rotating(2)

SHORT = PlanOptions(duration_us=4_000_000)
SHORTEST = PlanOptions(duration_us=2_000_000)
SECOND = 1_000_000


class TestTheSameEveryTime:
    @pytest.mark.rotating(3)
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_a_plan_has_one_history(self, seed: int) -> None:
        plan = make_plan(seed, SHORTEST)
        assert plan.faults
        first, second = run_plan(plan), run_plan(plan)
        assert first.failure is None
        assert first.digest == second.digest
        assert attrs.evolve(first, real_s=0.0) == attrs.evolve(second, real_s=0.0)
        assert first.virtual_s > 2

    @pytest.mark.rotating(2)
    def test_its_script_has_the_same_one(self) -> None:
        plan = make_plan(2, SHORTEST)
        script = parse_script(plan.script().text)
        assert run_script(script).digest == run_plan(plan).digest

    def test_another_seed_has_another(self) -> None:
        plan = make_plan(1, SHORTEST)
        other = attrs.evolve(plan, header=attrs.evolve(plan.header, seed=99))
        assert run_plan(plan).digest != run_plan(other).digest


class TestCounts:
    def test_what_happened_is_counted(self) -> None:
        faults = (TimedStep(2 * SECOND, process.kill((1,))), TimedStep(3 * SECOND, process.kill((1,))))
        outcome = run_plan(Plan(header=Header(seed=1), clients=2, duration_us=4 * SECOND, faults=faults))
        assert outcome.failure is None
        assert outcome.counts["kill"] == 2
        assert outcome.counts["elections"] >= 1
        assert outcome.counts["acknowledged appends"] > 2
        assert outcome.virtual_s > 4
        assert outcome.real_s > 0

    def test_without_clients_recovery_appends(self) -> None:
        outcome = run_plan(Plan(header=Header(seed=1), clients=0, duration_us=SECOND))
        assert outcome.failure is None
        assert outcome.counts["acknowledged appends"] == 1


class TestStepsOfPlans:
    def test_clients_are_as_busy_as_they_are_told(self) -> None:
        def appends(every_us: int) -> int:
            plan = Plan(header=Header(seed=1), clients=2, clients_every_us=every_us, duration_us=5 * SECOND)
            outcome = run_plan(plan)
            assert outcome.failure is None
            return outcome.counts["acknowledged appends"]

        assert appends(SECOND // 20) > 4 * appends(SECOND)

    @pytest.mark.parametrize(
        ("blow", "kind", "cause"),
        [
            ("kill", "end", "killed"),
            ("crash", "end", "crashed, unsynced data lost: reordered"),
            ("pause", "fault", "paused"),
        ],
    )
    def test_the_current_leader_is_struck(self, blow: str, kind: str, cause: str) -> None:
        struck = self.events_after(runs.strike_leader(blow))
        assert [(event.kind, event.cause, event.role) for event in struck if event.kind in ("end", "fault")][:1] == [
            (kind, cause, "Leader")
        ]

    @pytest.mark.parametrize("blow", ["isolate", "stall"])
    def test_a_leader_that_is_cut_off_resigns(self, blow: str) -> None:
        events = self.events_after(runs.strike_leader(blow))
        leader = next(event.leader for event in events if event.leader is not None)
        roles = [event.role for event in events if event.kind == "role" and event.node == leader]
        assert roles[0] == "Resigned"

    def events_after(self, step: Step) -> list[TraceEvent]:
        seen: list[TraceEvent] = []
        faults = (TimedStep(4 * SECOND, step),)
        plan = Plan(header=Header(seed=1), clients=1, duration_us=12 * SECOND, faults=faults)
        outcome = run_plan(plan, lambda trace: trace.listeners.append(seen.append))
        assert outcome.failure is None
        struck_at = next(index for index, event in enumerate(seen) if event.cause == step.text)
        return seen[struck_at + 1 :]

    def test_where_nobody_leads_nobody_is_struck(self) -> None:
        faults = (TimedStep(0, runs.strike_leader("kill")),)
        outcome = run_plan(Plan(header=Header(seed=1), duration_us=2 * SECOND, faults=faults))
        assert outcome.failure is None
        assert outcome.counts["elections"] == 1


class TestTrace:
    @pytest.mark.rotating(2)
    @pytest.mark.parametrize("ndjson", [False, True])
    def test_every_event_is_in_the_file_with_the_script_before_them(self, tmp_path: Any, ndjson: bool) -> None:
        seen: list[TraceEvent] = []
        listened = run_plan(make_plan(5, SHORT), lambda trace: trace.listeners.append(seen.append))
        path = tmp_path / "trace"
        outcome = run_seed(5, SHORT, TraceTo(str(path), "kraft simulate --seed 5", ndjson=ndjson))
        assert outcome.digest == listened.digest
        with open_trace(path) as (header, events):
            assert list(events) == seen
        assert (header.seed, header.command) == (5, "kraft simulate --seed 5")
        assert parse_script(header.script).steps == tuple(make_plan(5, SHORT).steps())
        assert [event.sequence for event in seen] == list(range(len(seen)))
        texts = [event.cause for event in seen if event.kind == "step"]
        assert texts == [step.text for step in make_plan(5, SHORT).steps()]

    @pytest.mark.rotating(2)
    def test_messages_change_nothing_but_the_file(self, tmp_path: Any) -> None:
        plain = run_seed(5, SHORTEST, TraceTo(str(tmp_path / "plain"), "command"))
        chatty = run_seed(5, SHORTEST, TraceTo(str(tmp_path / "chatty"), "command", messages=True))
        assert chatty.digest == plain.digest
        with open_trace(tmp_path / "plain") as (_, events):
            without = [attrs.evolve(event, sequence=0) for event in events]
        with open_trace(tmp_path / "chatty") as (_, events):
            kept = [event for event in events if event.kind != "message"]
        assert [attrs.evolve(event, sequence=0) for event in kept] == without
        assert kept[-1].sequence > len(without)

    def test_the_document_describes_every_kind_with_its_details(self) -> None:
        """All but the details of "log", which are the fields of the node's own log line."""
        seen: dict[str, set[str]] = {}

        def note(event: TraceEvent) -> None:
            seen.setdefault(event.kind, set()).update(event.details)

        def listen(trace: Trace) -> None:
            trace.records_messages = True
            trace.listeners.append(note)

        # Together, these have every kind and every detail.
        for seed in (3, 29):
            run_plan(make_plan(seed, SHORT), listen)
        page = Path(__file__).parents[2] / "docs" / "reference" / "traces.md"
        document = page.read_text().partition("## Kinds of event")[2]
        rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]*)\|", document, re.MULTILINE)
        documented = {kind: set(re.findall(r"`(\w+)`", details)) for kind, details in rows}
        documented["log"] = seen["log"]
        assert seen.keys() <= documented.keys()
        # What these runs have none of; `lost` is of real nodes alone (tests/tracing/test_node_trace.py).
        assert documented.keys() - seen.keys() <= {"violation", "stranger", "truncate", "lost"}
        assert {kind: documented[kind] for kind in seen} == seen

    def test_the_trace_is_there_before_its_first_event(self) -> None:
        counts: list[int] = []
        plan = Plan(header=Header(seed=1), clients=0, duration_us=1)
        run_plan(plan, lambda trace: counts.append(trace.count))
        assert counts == [0]


class TestFailures:
    @pytest.mark.usefixtures("acknowledges_at_once")
    def test_a_broken_invariant(self) -> None:
        outcome = run_plan(make_plan(1, attrs.evolve(SHORT, voters=3, profiles=())))
        failure = outcome.failure
        assert failure is not None
        assert failure.rule == "invariant 11"
        assert len(failure.facts) == 2
        assert failure.events
        assert failure.time_s == pytest.approx(outcome.virtual_s, abs=0.01)
        lines = failure.lines(1)
        assert lines[0].startswith("seed 1: invariant 11 (")
        assert all(any(fact in line for line in lines) for fact in failure.facts)

    @pytest.mark.rotating(2)
    @pytest.mark.usefixtures("acknowledges_at_once")
    def test_shrunk_it_is_a_script_that_fails_again_by_itself(self) -> None:
        plan = make_plan(1, attrs.evolve(SHORT, voters=5))
        assert plan.faults
        shrunk = shrink(plan, run_plan(plan), run_plan)
        assert shrunk.plan.faults == ()
        assert len(shrunk.plan.header.nodes) == 2
        script = run_script(parse_script(shrunk.plan.script("why").text))
        assert script.failure is not None
        assert "invariant 11" in script.failure
        assert script.digest == shrunk.outcome.digest

    def test_an_error_of_the_run_itself(self) -> None:
        outcome = run_with(Kind("break-for-the-test", breaks)())
        assert outcome.failure is not None
        assert outcome.failure.rule == "ExceptionGroup"
        assert any("ZeroDivisionError: the step is broken" in fact for fact in outcome.failure.facts)
        assert outcome.failure.time_s == pytest.approx(1.0, abs=1.0)

    def test_a_run_in_which_no_time_passes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(seed_run, "CPU_LIMIT_S", 0.5)
        outcome = run_with(Kind("spin-for-the-test", spins)())
        assert outcome.failure is not None
        assert outcome.failure.rule == "stuck"
        assert any("still running after 0.5 s" in fact for fact in outcome.failure.facts)
        assert outcome.real_s < 60

    @pytest.mark.parametrize("attribute", ["__cause__", "__context__"])
    def test_an_alarm_within_trio_itself_means_stuck(self, attribute: str) -> None:
        error = trio.TrioInternalError("in the scheduler")
        assert not seed_run._is_stuck(BaseExceptionGroup("tasks", [ValueError(), error]))
        setattr(error, attribute, Stuck("still running"))
        assert seed_run._is_stuck(BaseExceptionGroup("tasks", [ValueError(), error]))

    def test_interrupted_by_the_user_it_is_no_outcome(self) -> None:
        with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
            run_with(Kind("interrupt-for-the-test", is_interrupted)())


async def breaks(_cluster: Cluster) -> None:
    raise ZeroDivisionError("the step is broken")


async def spins(_cluster: Cluster) -> None:
    while True:
        await trio.lowlevel.checkpoint()


async def is_interrupted(_cluster: Cluster) -> None:
    raise KeyboardInterrupt


def run_with(step: Step) -> Outcome:
    return run_plan(Plan(header=Header(seed=1), duration_us=2 * SECOND, faults=(TimedStep(SECOND, step),)))
