"""Every check of Kafka's metadata finds what it is there for, and nothing in a history that is sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .metadata_damages import DAMAGES, LAWFUL, Controllers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit import Audit

SOUND = "sound"


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A glob of all histories, each of a cluster of its own."""
    folder = tmp_path_factory.mktemp("controllers")
    for name, change in [(SOUND, None), *LAWFUL.items(), *((name, damage) for name, (*_, damage) in DAMAGES.items())]:
        controllers = Controllers()
        if change is not None:
            change(controllers)
        controllers.write(folder, name)
    return f"{folder}/*/*"


def names() -> list[str]:
    from kraft_trio.spark.audit import CHECKS

    return [check.name for check in CHECKS if check.source == "metadata"]


@pytest.fixture(scope="module")
def audited(directories: str) -> Audit:
    from kraft_trio.spark.audit import audit

    return audit(None, directories=[directories], checks=names())


@pytest.mark.rotating(4)
def test_spark_says_the_same(spark: SparkSession, directories: str, audited: Audit) -> None:
    from kraft_trio.spark.audit import audit

    of_spark = audit(spark, directories=[directories], checks=names())
    assert of_spark.results == audited.results
    assert of_spark.violations == audited.violations


def test_every_check_has_a_history_that_breaks_it() -> None:
    assert sorted({check for check, *_ in DAMAGES.values()}) == names()


@pytest.mark.parametrize("name", DAMAGES)
def test_a_broken_history_is_found_by_its_check_alone(audited: Audit, name: str) -> None:
    check, others, _ = DAMAGES[name]
    told = [violation for violation in audited.violations if violation.cluster == name]
    assert {violation.check for violation in told} - others == {check}
    assert all(violation.subject and violation.fact_a and violation.fact_b for violation in told)


@pytest.mark.parametrize("name", [SOUND, *LAWFUL])
def test_a_sound_history_has_nothing(audited: Audit, name: str) -> None:
    told = [f"{violation.check}: {violation}" for violation in audited.violations if violation.cluster == name]
    assert told == []
    statuses = {result.check: result.status for result in audited.results if result.cluster == name}
    assert statuses == dict.fromkeys(names(), "passed")


def test_the_values_of_an_application_accuse_nobody(backups: Path) -> None:
    from kraft_trio.spark.audit import audit

    assert audit(None, directories=[f"{backups}/node-*"], checks=names()).results == ()


def test_no_metadata_is_decoded_for_other_checks(directories: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kraft_trio.spark.audit import audit, metadata_tables

    monkeypatch.setattr(metadata_tables, "_MAKERS", {})
    found = audit(None, directories=[directories], checks=["log_checksums"])
    assert {result.check for result in found.results} == {"log_checksums"}
