"""DuckDB runs the queries that are written for Spark."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest


def test_hints_for_spark_are_left_out_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kraft_trio.spark.audit.local_engine import translated

    # Several threads translate at a time, so none can rely on a level that it sets in the shared logger.
    monkeypatch.setattr(logging.getLogger("sqlglot"), "setLevel", lambda level: None)
    translated.cache_clear()
    assert translated("select /*+ broadcast(b) */ * from a join b using (x)") == "SELECT * FROM a JOIN b USING (x)"
    assert caplog.records == []


def test_memory_is_for_batches_and_has_a_limit(tmp_path: Path) -> None:
    """Tables are in a file, where a name that repeats takes no room, and beyond the limit the disk is used."""
    from kraft_trio.spark.audit.local_engine import LocalEngine

    names = pa.table({"directory": pa.repeat("a directory with a long name " * 10, 200_000)})
    with closing(LocalEngine({"batches": names.to_reader}, str(tmp_path))) as engine:
        engine.decode("batches")
        engine.rows("checkpoint")
        [file] = tmp_path.glob("audit-*.duckdb")
        assert file.stat().st_size < names.nbytes / 10
        [row] = engine.rows("select current_setting('memory_limit') as memory")
    assert row["memory"].endswith("iB")
