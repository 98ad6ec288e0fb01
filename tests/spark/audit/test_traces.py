"""The audit of real traces: rules that are broken on purpose are found, and lawful runs have nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraft_trio.simulation.nemesis import PlanOptions
from kraft_trio.simulation.seed_run import TraceTo, run_seed

from .traces import FOUND, lawful_runs, write_lawful, write_mutant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit import Audit

SEEDS = range(710_000, 710_000 + int(os.environ.get("KRAFT_AUDIT_SEEDS", "12")))
"""Of random runs; for a thousand of them: KRAFT_AUDIT_SEEDS=1000."""
OPTIONS = PlanOptions(duration_us=8_000_000)


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """All traces in one audit, as of a fleet."""
    from kraft_trio.spark.audit import audit

    folder = tmp_path_factory.mktemp("traces")
    for name, (_, seed) in FOUND.items():
        write_mutant(name, seed, folder / f"broken {name}")
    for number, (run, seed) in enumerate(lawful_runs()):
        write_lawful(run, seed, folder / f"lawful {number}")
    for seed in SEEDS:
        outcome = run_seed(seed, OPTIONS, TraceTo(str(folder / f"seed {seed}"), f"kraft simulate --seed {seed}"))
        assert outcome.failure is None, outcome.failure
    return audit(spark, traces=[str(folder)])


@pytest.mark.parametrize("name", FOUND)
def test_a_broken_rule_is_found_in_the_trace(audited: Audit, name: str) -> None:
    check, _ = FOUND[name]
    found = {violation.check for violation in audited.violations if Path(violation.cluster).name == f"broken {name}"}
    assert f"trace_{check}" in found


def test_lawful_runs_have_nothing(audited: Audit) -> None:
    lawful = [v for v in audited.violations if not Path(v.cluster).name.startswith("broken")]
    assert [f"{violation.check}: {violation}" for violation in lawful] == []
    clusters = {result.cluster for result in audited.results if not Path(result.cluster).name.startswith("broken")}
    assert len(clusters) == len(lawful_runs()) + len(SEEDS)


def test_every_check_of_traces_had_something_to_look_at(audited: Audit) -> None:
    unseen = {result.check for result in audited.results} - {
        result.check for result in audited.results if result.status != "nothing to see"
    }
    assert unseen == set()
