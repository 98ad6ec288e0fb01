"""Traces to audit: of runs in which a rule of the nodes is broken and nobody looks, and of runs as they should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import attrs

from kraft_trio.simulation import Cluster, InvariantViolated, simulate, world
from kraft_trio.simulation.campaign import seed_run
from kraft_trio.simulation.campaign.seed_run import TraceTo, run_seed
from kraft_trio.simulation.campaign.watchdog import real_time_limit
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.simulation.script.step import NotAsExpected
from kraft_trio.simulation.setup import Setup
from kraft_trio.tracing.events import Trace
from kraft_trio.tracing.files import TraceHeader, TraceWriter, open_trace
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.mutant import REAL_LIMIT_S
from tests.simulation.mutants.runs import Run

from .directories import write_disks

FOUND = {
    "the vote given is ignored": ("one_vote_per_epoch", 0),
    "a refusal counts as a vote": ("one_leader_per_epoch", 0),
    "a minority of votes elects": ("elected_by_majority", 0),
    "a higher epoch seen is not stored": ("epochs_never_fall", 0),
    "a restarted leader asks for its epoch again": ("restarted_leader_resigns", 0),
    "a restarted leader leads on": ("role_transitions", 0),
    "a majority of pre votes makes a leader": ("one_record_per_place", 1),
    "a leader appends in the epoch of its log": ("leader_appends_in_its_epoch", 0),
    "votes ask any voter with the id": ("leader_completeness", 0),
    "a stale log gets the vote": ("successive_high_watermarks", 0),
    "recovery cuts the last batch": ("acknowledged_by_later_leaders", 0),
    "damage is cut like a torn tail": ("reads_are_whole", 0),
    "the state machine is given what is not committed": ("applied_is_committed", 0),
    "the state machine is given a batch twice": ("applied_once_in_order", 0),
    "the high watermark follows the majority down": ("high_watermark_never_falls", 0),
    "a diverging log is truncated wholly": ("no_truncation_of_committed", 0),
    "a new leader tells the high watermark it knew": ("high_watermark_of_the_epoch", 0),
    "the leader counts its unsynced end": ("commits_by_majority", 0),
    "a commit needs one voter fewer": ("commits_by_majority", 0),
    "a leader outside its set counts itself": ("commits_by_majority", 0),
    "two changes are made at a time": ("one_uncommitted_voter_set", 0),
    "a new disk takes the place of the old one at once": ("overlapping_voter_sets", 0),
    "the high watermark of an older epoch will do for a change": ("no_early_voter_change", 0),
    "an observer campaigns": ("members_campaign", 0),
    "a removed voter campaigns": ("members_campaign", 0),
    "an append is acknowledged at once": ("acknowledged_is_committed", 0),
    "pending appends are acknowledged when the epoch ends": ("acknowledged_once", 1),
}
"""Mutants of the simulator's tests by name: the check that must find each in its trace, and the seed of the run."""


def write_mutant(name: str, seed: int, path: Path) -> None:
    """Run the mutant with no invariant looked at, and write its trace."""
    mutant = MUTANTS[name]
    with mutant.switched_on():
        _write(attrs.evolve(mutant.run, setup=attrs.evolve(mutant.run.setup, seed=seed, invariants=())), path)


def write_lawful(run: Run, seed: int, path: Path) -> None:
    """A run with the rules as they are, every invariant looked at."""
    _write(attrs.evolve(run, setup=attrs.evolve(run.setup, seed=seed)), path)


def lawful_runs() -> list[tuple[Run, int]]:
    """The runs of all mutants that a check must find, each once."""
    runs = {(MUTANTS[name].run.name, seed): MUTANTS[name].run for name, (_, seed) in FOUND.items()}
    return [(run, seed) for (_, seed), run in runs.items()]


def write_random(seed: int, options: PlanOptions, trace: Path, directories: Path) -> None:
    """The plan of a seed, every invariant looked at: its trace, and the nodes' directories when it has ended.

    Those are of a cluster that is named after the seed.
    """
    ran: list[Cluster] = []

    def make(setup: Setup) -> Cluster:
        ran.append(Cluster(setup))
        return ran[0]

    with mock.patch.object(seed_run, "Cluster", make):
        outcome = run_seed(seed, options, TraceTo(str(trace), f"kraft simulate --seed {seed}"))
    assert outcome.failure is None, outcome.failure
    write_disks(ran[0], directories, f"seed-{seed}")


def write_piece(whole: Path, first: float, last: float, path: Path) -> None:
    """The events of a trace from one share of them up to another, as what is left where files are rotated or lost."""
    with open_trace(whole) as (header, events), TraceWriter(path, header) as writer:
        seen = list(events)
        for event in seen[round(first * len(seen)) : round(last * len(seen))]:
            writer.write(event)


def _write(run: Run, path: Path) -> None:
    with TraceWriter(path, TraceHeader(run.setup.seed, run.name)) as writer, _traced(writer):
        try:
            with real_time_limit(REAL_LIMIT_S):
                simulate(run.main, run.setup)
        except NotAsExpected:
            pass
        except InvariantViolated as violated:
            # What every run demands besides; a broken rule may well cost progress.
            if violated.violation.invariant != 0:
                raise


@contextmanager
def _traced(writer: TraceWriter) -> Iterator[None]:
    """Every cluster's trace is written from its first event on."""

    def make(*arguments: object) -> Trace:
        trace = Trace(*arguments)  # type: ignore[arg-type]
        writer.attach(trace)
        return trace

    with mock.patch.object(world, "Trace", make):
        yield
