"""DuckDB runs the queries that are written for Spark."""

from __future__ import annotations

import logging

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
