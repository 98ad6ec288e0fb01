"""Every check of traces finds what it is there for, and nothing in a history that is clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kraft_trio.spark.schemas import TRACE, arrow_schema

from .histories import clean, rows_of
from .mutations import MUTATIONS
from .node_histories import BROKEN, SOUND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit import Audit

CLEAN = "clean"


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """All histories, each a run of its own, in one audit."""
    from kraft_trio.spark.audit.audit import audit_tables
    from kraft_trio.spark.audit.spark_engine import SparkEngine

    rows = list(rows_of(clean(), CLEAN))
    for name, (_, mutation) in MUTATIONS.items():
        story = clean()
        mutation(story)
        rows += rows_of(story, name)
    for name, history in [*SOUND.items(), *((name, history) for name, (_, history) in BROKEN.items())]:
        rows += history(name)
    table = pa.Table.from_pylist(rows, schema=arrow_schema(TRACE))
    folder = str(tmp_path_factory.mktemp("scratch"))
    return audit_tables(SparkEngine(spark, {"trace": spark.createDataFrame(table)}, folder))


def test_every_check_of_traces_has_a_history_that_breaks_it() -> None:
    from kraft_trio.spark.audit import CHECKS

    expected = [check.name for check in CHECKS if check.source == "trace"]
    assert sorted({check for check, _ in MUTATIONS.values()}) == expected


@pytest.mark.parametrize("name", [*MUTATIONS, *BROKEN])
def test_a_broken_history_is_found(audited: Audit, name: str) -> None:
    check, _ = {**MUTATIONS, **BROKEN}[name]
    found = [violation for violation in audited.violations if (violation.check, violation.cluster) == (check, name)]
    assert found, "nothing was violated"
    for violation in found:
        assert violation.subject
        assert violation.fact_a
        assert violation.fact_b
    result = next(result for result in audited.results if (result.check, result.cluster) == (check, name))
    assert (result.status, result.violations) == ("violated", len(found))
    assert result.observed
    assert result.example == str(found[0])


def test_a_clean_history_has_nothing(audited: Audit) -> None:
    assert [str(violation) for violation in audited.violations if violation.cluster == CLEAN] == []
    passed = {result.check for result in audited.results if result.cluster == CLEAN and result.status == "passed"}
    assert len(passed) > 20


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_history_has_nothing_whatever_is_left_of_it(audited: Audit, name: str) -> None:
    told = [violation for violation in audited.violations if violation.cluster == name]
    assert [f"{violation.check}: {violation}" for violation in told if violation.severity == "error"] == []


def test_what_is_missing_is_told_once(audited: Audit) -> None:
    told: dict[str, list[str]] = {}
    for violation in audited.violations:
        if violation.severity == "warning":
            told.setdefault(violation.cluster, []).append(violation.fact_b)
    assert told["what_added_a_voter_is_not_there"] == ["2 of them are not there"]
    assert len(told["what_added_a_voter_is_damaged"]) == 2
    assert all("no JSON" in fact for fact in told["what_added_a_voter_is_damaged"])
    assert told["a_restart_is_not_there"] == ["1 of them are not there"]
    assert "a_node_is_restarted" not in told
