"""The history of audits: who appends to it disturbs nobody who does it at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kraft_trio.errors import StorageError

from .conftest import audit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_A_TIME = 4


def test_audits_that_append_at_a_time_are_all_kept(spark: SparkSession, tmp_path: Path) -> None:
    from kraft_trio.spark.audit.store import append_history

    together = Barrier(AT_A_TIME)

    def append(run_id: str) -> None:
        together.wait()
        append_history(spark, audit_of(run_id), str(tmp_path / "of all"))

    run_ids = [f"run-{number}" for number in range(AT_A_TIME)]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(append, run_ids))
    for name in ("results", "violations"):
        kept = spark.read.parquet(str(tmp_path / "of all" / name))
        assert sorted(row.run_id for row in kept.collect()) == run_ids
    [row] = kept.where("run_id = 'run-1'").selectExpr("*", "unix_micros(audited_at) as audited_us").collect()
    assert row.audited_us == round(audit_of("").audited_at.timestamp() * 1_000_000)
    assert (row.check, row.cluster, row.subject, row.fact_a, row.fact_b) == (
        "log_matching",
        "orders",
        "offset 1",
        "a",
        "b",
    )


def test_what_another_one_is_about_to_append_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Also where that is a job of Spark's, which has its files below `_temporary` until it has ended."""
    from kraft_trio.spark.audit.store import append_history

    file = tmp_path / "results" / "_temporary" / "0" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half of it")
    append_history(spark, audit_of("run"), str(tmp_path))
    assert file.read_bytes() == b"half of it"
    assert spark.read.parquet(str(tmp_path / "results")).count() == 1


def test_where_nothing_can_be_written_the_place_is_named(spark: SparkSession, tmp_path: Path) -> None:
    from kraft_trio.spark.audit.store import append_history

    (tmp_path / "results").write_text("no directory")
    with pytest.raises(StorageError, match="results: cannot be written: "):
        append_history(spark, audit_of("run"), str(tmp_path))


@pytest.mark.parametrize("url", [None, "memory://audits"])
def test_without_spark(url: str | None, tmp_path: Path) -> None:
    """The same files, in a directory or wherever fsspec leads to, and nothing else."""
    import fsspec

    from kraft_trio.spark.audit.store import append_history

    out = url or str(tmp_path / "audits")
    for run_id in ("run-1", "run-2"):
        append_history(None, audit_of(run_id), out)
    files, path = fsspec.core.url_to_fs(out)
    for name in ("results", "violations"):
        found = sorted(file.rpartition("/")[2] for file in files.find(f"{path}/{name}"))
        assert found == ["part-run-1.parquet", "part-run-2.parquet"]
        kept = pq.read_table(f"{path}/{name}", filesystem=files).to_pylist()
        assert sorted(row["run_id"] for row in kept) == ["run-1", "run-2"]


def test_without_spark_where_nothing_can_be_written(tmp_path: Path) -> None:
    from kraft_trio.spark.audit.store import append_history

    (tmp_path / "results").write_text("no directory")
    with pytest.raises(StorageError, match="results: cannot be written: File exists"):
        append_history(None, audit_of("run"), str(tmp_path))
