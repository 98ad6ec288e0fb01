"""Every check of logs finds what it is there for, and nothing in the directories of a quorum that is sound."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pytest

from kraft_trio.spark.schemas import arrow_schema

from . import damages, directory_damages  # noqa: F401
from .backup import ALONE, DAMAGES, LAWFUL, QUIET, Backup
from .directories import write_directories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit import Audit

SOUND = "sound"


Tables = dict[str, pa.Table]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The rows of all backups, each a cluster of its own."""
    from kraft_trio.spark.audit import Limits
    from kraft_trio.spark.audit.local_engine import decode_directories
    from kraft_trio.spark.audit.tables import columns_of

    directories = write_directories(tmp_path_factory.mktemp("directories"))
    raw = decode_directories([str(directory) for directory in directories], Limits(expect_voters=1))
    sound = Backup({name: read().read_all().to_pylist() for name, read in raw.items()})
    rows = sound.copy(SOUND).tables | {"limits": sound.tables["limits"]}
    for name, damage in [*((name, damage) for name, (_, damage) in DAMAGES.items()), *LAWFUL.items()]:
        backup = sound.copy(name)
        damage(backup)
        for table, some in backup.tables.items():
            rows[table] += some
    return {name: pa.Table.from_pylist(some, schema=arrow_schema(columns_of(name))) for name, some in rows.items()}


@pytest.fixture(scope="module")
def audited(tables: Tables, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """All backups in one audit, in this process."""
    from kraft_trio.spark.audit.audit import audit_tables
    from kraft_trio.spark.audit.local_engine import LocalEngine

    raw = {name: partial(pa.Table.to_reader, table) for name, table in tables.items()}
    with closing(LocalEngine(raw, str(tmp_path_factory.mktemp("scratch")))) as engine:
        return audit_tables(engine, with_figures=True)


def test_spark_says_the_same(spark: SparkSession, tables: Tables, audited: Audit, tmp_path: Path) -> None:
    """Of every backup, sound or damaged."""
    from kraft_trio.spark.audit.audit import audit_tables
    from kraft_trio.spark.audit.spark_engine import SparkEngine

    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    of_spark = audit_tables(SparkEngine(spark, frames, str(tmp_path)), with_figures=True)
    assert of_spark.results == audited.results
    assert of_spark.violations == audited.violations
    assert of_spark.figures == audited.figures


def test_every_check_of_logs_has_a_backup_that_breaks_it() -> None:
    from kraft_trio.spark.audit import CHECKS

    expected = [check.name for check in CHECKS if check.source == "log"]
    assert sorted({check for check, _ in DAMAGES.values()}) == expected


@pytest.mark.parametrize("name", DAMAGES)
def test_a_broken_backup_is_found(audited: Audit, name: str) -> None:
    check, _ = DAMAGES[name]
    found = [violation for violation in audited.violations if (violation.check, violation.cluster) == (check, name)]
    assert found, "nothing was violated"
    assert all(violation.subject and violation.fact_a and violation.fact_b for violation in found)
    result = next(result for result in audited.results if (result.check, result.cluster) == (check, name))
    assert (result.status, result.violations, result.example) == ("violated", len(found), str(found[0]))


@pytest.mark.parametrize("name", ALONE)
def test_what_is_damaged_accuses_nobody(audited: Audit, name: str) -> None:
    check, _ = ALONE[name]
    told = [violation for violation in audited.violations if violation.cluster == name]
    errors = [f"{violation.check}: {violation}" for violation in told if violation.severity == "error"]
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"{check}: ")


@pytest.mark.parametrize("name", [SOUND, *LAWFUL])
def test_a_sound_backup_has_nothing(audited: Audit, name: str) -> None:
    told = [one for one in audited.violations if one.cluster == name or one.cluster.startswith(f"{name}, ")]
    is_quiet = name == SOUND or name in QUIET
    assert [f"{violation.check}: {violation}" for violation in told if is_quiet or violation.severity == "error"] == []


def test_every_log_check_has_work_in_a_sound_backup(audited: Audit) -> None:
    assert [str(violation) for violation in audited.violations if violation.cluster == SOUND] == []
    statuses = {result.check: result.status for result in audited.results if result.cluster == SOUND}
    assert [check for check, status in statuses.items() if status != "passed"] == []


def test_a_cluster_with_thousands_of_violations_hides_no_other(tmp_path: Path) -> None:
    from kraft_trio.spark.audit import CHECKS
    from kraft_trio.spark.audit.audit import MOST_VIOLATIONS, violations_of
    from kraft_trio.spark.audit.local_engine import LocalEngine

    whose = "if(id < 5000, 'broken', concat('other ', id))"
    sql = f"select {whose} as cluster, string(id) as subject, 'a' as fact_a, 'b' as fact_b from range(5010) as r(id)"
    with closing(LocalEngine({}, str(tmp_path))) as engine:
        counts, told = violations_of(engine, attrs.evolve(CHECKS[0], sql=sql))
    assert counts["broken"] == 5000
    assert {violation.cluster for violation in told} == counts.keys()
    assert 10 < len(told) <= MOST_VIOLATIONS


def test_growth_is_drawn_by_the_clocks_of_leaders(tables: Tables, tmp_path: Path) -> None:
    from kraft_trio.spark.audit.audit import audit_tables
    from kraft_trio.spark.audit.local_engine import LocalEngine

    rows = {
        name: [row for row in table.to_pylist() if row.get("cluster_id", SOUND) == SOUND]
        for name, table in tables.items()
    }

    def growth() -> object:
        made = {name: pa.Table.from_pylist(some, tables[name].schema) for name, some in rows.items()}
        with closing(
            LocalEngine({name: partial(pa.Table.to_reader, one) for name, one in made.items()}, str(tmp_path))
        ) as engine:
            return audit_tables(engine, checks=["log_checksums"], with_figures=True).figures[SOUND]["log_log_growth"]

    before = growth()
    for row in rows["batches"]:
        if not row["control"] and row["max_timestamp"] is not None:
            row["max_timestamp"] += timedelta(days=300)
    assert growth() == before


def test_replicas_are_compared_with_a_reference(tables: Tables, tmp_path: Path) -> None:
    """One that differs from many is told once, and it is the one that is accused."""
    from kraft_trio.spark.audit.audit import audit_tables
    from kraft_trio.spark.audit.local_engine import LocalEngine

    batches = [row for row in tables["batches"].to_pylist() if row["cluster_id"] == SOUND]
    [odd] = [row for row in batches if row["node"] == 1 and row["base_offset"] == 13]
    copies = [
        {**row, "directory": f"copy-{number}", "node": 10 + number, "directory_id": None}
        for number in range(20)
        for row in batches
        if row["node"] == 2
    ]
    odd["content_crc"] = odd["crc"] = 1
    for row in batches:
        if row["node"] == 3 and row["epoch"] == 2:
            row["epoch"] = 1
    raw = {
        **{name: partial(pa.Table.to_reader, table.slice(0, 0)) for name, table in tables.items()},
        "batches": partial(pa.Table.to_reader, pa.Table.from_pylist(batches + copies, tables["batches"].schema)),
    }
    with closing(LocalEngine(raw, str(tmp_path))) as engine:
        found = audit_tables(engine, checks=["log_matching", "log_same_prefix"])
    [different] = [one for one in found.violations if one.check == "log_matching"]
    assert f"{odd['directory']}, " in different.fact_b
    apart = [one for one in found.violations if one.check == "log_same_prefix"]
    assert 1 <= len(apart) <= 23
