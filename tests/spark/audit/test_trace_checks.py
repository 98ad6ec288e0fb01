"""Every check of traces finds what it is there for, and nothing in a history that is clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kraft_trio.spark.schemas import TRACE, arrow_schema

from .histories import MUTATIONS, clean, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit import Audit

CLEAN = "clean"


@pytest.fixture(scope="module")
def audited(spark: SparkSession) -> Audit:
    """All histories, each a run of its own, in one audit."""
    from kraft_trio.spark.audit.audit import audit_tables

    rows = list(rows_of(clean(), CLEAN))
    for name, mutation in MUTATIONS.items():
        story = clean()
        mutation(story)
        rows += rows_of(story, name)
    table = pa.Table.from_pylist(rows, schema=arrow_schema(TRACE))
    return audit_tables(spark, {"trace": spark.createDataFrame(table)})


def test_every_check_of_traces_has_a_history_that_breaks_it() -> None:
    from kraft_trio.spark.audit import CHECKS

    assert sorted(MUTATIONS) == [check.name for check in CHECKS if check.source == "trace"]


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_history_is_found(audited: Audit, name: str) -> None:
    found = [violation for violation in audited.violations if (violation.check, violation.cluster) == (name, name)]
    assert found, "nothing was violated"
    for violation in found:
        assert violation.subject
        assert violation.fact_a
        assert violation.fact_b
    result = next(result for result in audited.results if (result.check, result.cluster) == (name, name))
    assert (result.status, result.violations) == ("violated", len(found))
    assert result.observed
    assert result.example == str(found[0])


def test_a_clean_history_has_nothing(audited: Audit) -> None:
    assert [str(violation) for violation in audited.violations if violation.cluster == CLEAN] == []
    passed = {result.check for result in audited.results if result.cluster == CLEAN and result.status == "passed"}
    assert len(passed) > 20
