"""Runs whose traces are checked, without invariants: the trace alone has to show what is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import attrs
import trio

from kraft_trio.errors import KraftError
from kraft_trio.simulation import Cluster, InvariantViolated
from kraft_trio.simulation.campaign.seed_run import run_plan
from kraft_trio.simulation.campaign.watchdog import real_time_limit
from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.simulation.faults.nemesis import PlanOptions, make_plan
from kraft_trio.simulation.script.step import NotAsExpected
from kraft_trio.tracing.events import TraceEvent
from tests.simulation.mutants import Run

REAL_LIMIT_S = 30.0


def traced(run: Run, seed: int, until_s: float) -> list[TraceEvent]:
    """The events of a run, until it ends or fails, or for so many virtual seconds."""
    events: list[TraceEvent] = []

    async def main() -> None:
        cluster = Cluster(attrs.evolve(run.setup, seed=seed, invariants=()))
        cluster.trace.listeners.append(events.append)
        with contextlib.suppress(NotAsExpected, KraftError, InvariantViolated):
            async with cluster.running():
                with trio.move_on_after(until_s):
                    await run.main(cluster)

    # A node that a broken rule ends also leaves a trace.
    with real_time_limit(REAL_LIMIT_S), contextlib.suppress(BaseExceptionGroup, RuntimeError, AssertionError):
        run_deterministically(main, seed=seed)
    return events


def planned(seed: int, options: PlanOptions) -> list[TraceEvent]:
    """The events of a seed of `kraft simulate`, which nothing has failed in."""
    events: list[TraceEvent] = []
    outcome = run_plan(make_plan(seed, options), lambda trace: trace.listeners.append(events.append))
    assert outcome.failure is None
    return events


def moved(events: Sequence[TraceEvent], at: int, before: int) -> list[TraceEvent]:
    """The events with one of them earlier."""
    assert before < at
    rest = [*events[:at], *events[at + 1 :]]
    return [*rest[:before], events[at], *rest[before:]]


def changed(events: Sequence[TraceEvent], at: int, **values: object) -> list[TraceEvent]:
    """The events with other values in one of them; `details` adds to those it has."""
    event = events[at]
    details = values.pop("details", {})
    assert isinstance(details, dict)
    instead = attrs.evolve(event, details={**event.details, **details}, **values)
    return [*events[:at], instead, *events[at + 1 :]]
