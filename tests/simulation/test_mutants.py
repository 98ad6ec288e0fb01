"""The simulator is itself tested: broken rules are found, by the invariants that are there for them."""

from __future__ import annotations

import functools
import math

import attrs
import pytest

from kraft_trio.simulation import Violation
from kraft_trio.simulation.invariants import INVARIANTS
from tests.support import sizes

from .mutants import MUTANTS, Run, violation_of
from .mutants.reads import BARRIERS
from .mutants.runs import storm
from .mutants.snapshots import SETTINGS as SNAPSHOT_SETTINGS
from .mutants.table import DOCUMENT, table_names, table_seeds

IMPLIED = {1: "a refusal counts as a vote"}
"""Invariants that others forestall, and a mutant that they find alone: of a second leader, 22 sees by whom it was
elected."""

SNAPSHOTS = storm(
    "random snapshots",
    *("take_snapshots", "crash_in_snapshot", "lag", "fetcher_struck", "leader_lost_in_a_download", "rot_in_snapshot"),
    *("change_of_a_lost_leader", "crash"),
    seconds=15,
    gap_s=0.7,
    clients=2,
    operations_per_s=10,
    observers=2,
    settings=tuple({**SNAPSHOT_SETTINGS, "metadata.log.max.record.bytes.between.snapshots": "700"}.items()),
)

FOUND_BY_CHANCE_WITH_SNAPSHOTS = (
    "a snapshot is named before it is synced",
    "a snapshot has the newest voters",
    "a snapshot has the time it was taken at",
    "the state machine is not given the snapshot",
    "the voters of before the snapshot stay",
    "the log does not give way",
    "the high watermark is not that of the snapshot",
    "the last snapshot goes too",
)

SEEDS_WITH_SNAPSHOTS = {"a snapshot has the newest voters": 60}
"""Instead of 10.  Only three seeds below 40 take a snapshot between the append of a voter change and its commit."""

CHURN = storm(
    "random voter changes",
    *("change_of_a_new_leader", "change_and_strike", "two_changes", "grow"),
    seconds=15,
    gap_s=1.5,
    clients=2,
    operations_per_s=3,
    observers=2,
)

FOUND_BY_CHANCE = (
    "a change does not wait for the first commit of the epoch",
    "the high watermark of an older epoch will do for a change",
    "the old set counts until the new one is committed",
    "a truncated voter set stays in force",
    "a removed voter campaigns",
    "a leader outside its set counts itself",
    "two changes are made at a time",
    "a change is answered when it is appended",
)

FOUND_BY_CHANCE_IN_READS = {
    "the high watermark of an older epoch is a read index": BARRIERS,
}

SEEDS = table_seeds(DOCUMENT.read_text(encoding="utf-8"))
"""The first seed that found each mutant, when the results were last written."""

COMPARED = sizes.part(tuple(MUTANTS), 8)
"""Mutants whose run is repeated with the rules as they are."""


@pytest.mark.rotating(3)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    found = mutant.hunt(first=SEEDS.get(name, 0))
    assert found is not None, f"{mutant.seeds} seeds, and nothing was violated"
    assert found.violation.invariant in mutant.found_by, str(found.violation)
    if name not in COMPARED:
        return
    until_s = math.inf if sizes.IS_ALL else found.violation.time_s
    lawful = _without_mutants(mutant.run, found.seed, until_s)
    assert lawful is None, f"the same run finds as much in the rules as they are: {lawful}"


@functools.cache
def _without_mutants(run: Run, seed: int, until_s: float = math.inf) -> Violation | None:
    return violation_of(run, seed, until_s=until_s)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FOUND_BY_CHANCE)
def test_random_voter_changes_find_it_as_well(name: str) -> None:
    """Without a script made for it: the plans of random runs get to where these rules matter."""
    mutant = attrs.evolve(MUTANTS[name], run=CHURN, seeds=6)
    found = mutant.hunt()
    assert found is not None, f"{mutant.seeds} seeds, and nothing was violated"
    assert found.violation.invariant in mutant.found_by, str(found.violation)
    assert _without_mutants(CHURN, found.seed) is None


@pytest.mark.nightly
@pytest.mark.parametrize("name", FOUND_BY_CHANCE_WITH_SNAPSHOTS)
def test_random_snapshots_find_it_as_well(name: str) -> None:
    mutant = attrs.evolve(MUTANTS[name], run=SNAPSHOTS, seeds=SEEDS_WITH_SNAPSHOTS.get(name, 10))
    found = mutant.hunt()
    assert found is not None, f"{mutant.seeds} seeds, and nothing was violated"
    assert _without_mutants(SNAPSHOTS, found.seed) is None


@pytest.mark.nightly
@pytest.mark.parametrize("name", FOUND_BY_CHANCE_IN_READS)
def test_random_faults_find_a_broken_barrier_as_well(name: str) -> None:
    run = FOUND_BY_CHANCE_IN_READS[name]
    mutant = attrs.evolve(MUTANTS[name], run=run, seeds=20)
    found = mutant.hunt()
    assert found is not None, f"{mutant.seeds} seeds, and nothing was violated"
    assert found.violation.invariant in mutant.found_by, str(found.violation)
    assert _without_mutants(run, found.seed) is None


def test_every_invariant_has_a_mutant() -> None:
    expected = {number for mutant in MUTANTS.values() for number in mutant.found_by}
    needed = {invariant.number for invariant in INVARIANTS} - IMPLIED.keys()
    assert needed <= expected


@pytest.mark.parametrize("number", IMPLIED)
def test_an_invariant_that_others_forestall_fires_by_itself(number: int) -> None:
    found = MUTANTS[IMPLIED[number]].hunt(only=number)
    assert found is not None
    assert found.violation.invariant == number


def test_the_results_list_every_mutant() -> None:
    assert table_names(DOCUMENT.read_text(encoding="utf-8")) == list(MUTANTS), "run scripts/mutants"
