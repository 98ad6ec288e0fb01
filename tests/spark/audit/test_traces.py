"""The audit of what simulated nodes have done: broken rules are found, and lawful runs have nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraft_trio.simulation.faults.nemesis import PlanOptions
from tests.support import sizes

from .traces import FOUND, lawful_runs, write_lawful, write_mutant, write_piece, write_random

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit import Audit

FIRST_SEED = 710_000
SEEDS = int(os.environ.get("KRAFT_AUDIT_SEEDS", "100"))
"""How many random runs the nightly run audits."""
AT_A_TIME = 100
"""So many are audited together."""
GROUPS = [
    range(first, min(first + AT_A_TIME, FIRST_SEED + SEEDS))
    for first in range(FIRST_SEED, FIRST_SEED + SEEDS, AT_A_TIME)
]
OPTIONS = PlanOptions(duration_us=5_000_000)

SELDOM = {"log_appended_once"}
"""Checks of what simulated clients do not do: idempotent producers."""

PIECES = ((0.0, 0.6), (0.3, 1.0), (0.55, 0.9), (0.8, 1.0))
"""Of traces: from which share of the events up to which."""


def pieces_of(number: int) -> Sequence[tuple[float, float]]:
    """The pieces to make of a lawful run.  The default run makes one, and a different one of each run."""
    return PIECES if sizes.IS_ALL else [PIECES[number % len(PIECES)]]


LAWFUL = sizes.part(lawful_runs(), 3)
"""In the default run some of them, and others with the next commit."""


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """All traces in one audit, as of a fleet."""
    from kraft_trio.spark.audit import audit

    folder = tmp_path_factory.mktemp("traces")
    for name, (_, seed) in FOUND.items():
        write_mutant(name, seed, folder / f"broken {name}")
    for number, (run, seed) in enumerate(LAWFUL):
        write_lawful(run, seed, folder / f"lawful {number}")
        for piece, (first, last) in enumerate(pieces_of(number)):
            write_piece(folder / f"lawful {number}", first, last, folder / f"piece {piece} of {number}")
    return audit(spark, traces=[str(folder)])


@pytest.mark.parametrize("name", FOUND)
def test_a_broken_rule_is_found_in_the_trace(audited: Audit, name: str) -> None:
    check, _ = FOUND[name]
    found = {violation.check for violation in audited.violations if Path(violation.cluster).name == f"broken {name}"}
    assert f"trace_{check}" in found


def test_lawful_runs_have_nothing(audited: Audit) -> None:
    assert told_of(audited, "lawful") == []
    clusters = {result.cluster for result in audited.results if Path(result.cluster).name.startswith("lawful")}
    assert len(clusters) == len(LAWFUL)


def test_a_split_of_a_lawful_run_lacks_only_its_beginning(audited: Audit) -> None:
    told = told_of(audited, "piece")
    assert [line for line in told if "its first event is the" not in line] == []
    assert len(told) == sum(first > 0 for number in range(len(LAWFUL)) for first, _ in pieces_of(number))


def told_of(audited: Audit, name: str) -> list[str]:
    """The violations and warnings of the runs whose names begin so."""
    told = [violation for violation in audited.violations if Path(violation.cluster).name.startswith(name)]
    return [f"{violation.check}: {violation}" for violation in told]


@pytest.mark.nightly
@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds[0]} to {seeds[-1]}")
def test_random_runs_leave_nothing_in_traces_and_on_disks(spark: SparkSession, tmp_path: Path, seeds: range) -> None:
    from kraft_trio.spark.audit import CHECKS, audit

    (tmp_path / "traces").mkdir()
    for seed in seeds:
        write_random(seed, OPTIONS, tmp_path / "traces" / str(seed), tmp_path / "disks" / str(seed))
    found = audit(spark, directories=[str(tmp_path / "disks" / "*" / "*")], traces=[str(tmp_path / "traces")])
    assert [f"{violation.check}: {violation}" for violation in found.violations] == []
    assert {result.check for result in found.results if result.observed} >= {check.name for check in CHECKS} - SELDOM
    assert {result.cluster for result in found.results} >= {f"seed-{seed}" for seed in seeds}
    shutil.rmtree(tmp_path)
