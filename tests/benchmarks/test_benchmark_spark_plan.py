"""The benchmark of planning measures a plan of all the segments, which reads none of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")

from benchmarks.loads.spark_plan import main
from benchmarks.spark_plan import section_of


def test_a_small_fleet(tmp_path: Path) -> None:
    runner = CliRunner()
    written = runner.invoke(main, ["write", f"{tmp_path}/n", "--replicas", "3", "--segments", "2"])
    assert written.exit_code == 0, written.output
    planned = runner.invoke(main, ["plan", f"{tmp_path}/n/*"])
    assert planned.exit_code == 0, planned.output
    figures = json.loads(planned.output)
    assert figures["tasks"] == 3 * 2 * 16
    assert figures["bytes_read"] < 100_000
    assert all(aim.met for aim in section_of(3, {**figures, "seconds": 1.0}).aims)
