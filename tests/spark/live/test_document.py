"""What docs/SPARK.md shows of live quorums is run as it stands there, and prints what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.acceptance.conftest import MakeQuorum
from tests.spark.documents import program
from tests.spark.live.programs import run_program

SHOWN_QUORUM = "localhost:9093"


@pytest.mark.parametrize("heading", ["Stream", "Watch a stream", "Write"])
def test_a_program_prints_what_it_says(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path, heading: str
) -> None:
    quorum = make_quorum(1)
    quorum.start()
    if heading != "Write":
        quorum.produce(["first", "second", "third"])
    shown = program(heading)
    assert SHOWN_QUORUM in shown.text
    (tmp_path / "program.py").write_text(shown.text.replace(SHOWN_QUORUM, quorum.bootstrap_servers))
    expected = shown.output.replace(SHOWN_QUORUM, quorum.bootstrap_servers).strip()
    assert run_program(tmp_path / "program.py").strip() == expected
