"""What docs/SPARK.md shows of live quorums is run as it stands there, and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.acceptance.conftest import MakeQuorum
from tests.spark.live.programs import run_program
from tests.support.programs import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "SPARK.md").read_text()
SHOWN_QUORUM = "localhost:9093"


def program_and_output(heading: str) -> tuple[str, str]:
    """The first program below a heading, and the block that follows it."""
    section = DOCUMENT.partition(f"\n## {heading}\n")[2]
    found = re.search(r"^```python\n(.*?)^```\n\n```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1], found[2]


@pytest.mark.parametrize("heading", ["Stream", "Write"])
def test_a_first_program_prints_what_it_says(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path, heading: str
) -> None:
    quorum = make_quorum(1)
    quorum.start()
    if heading == "Stream":
        quorum.produce(["first", "second", "third"])
    program, output = program_and_output(heading)
    assert SHOWN_QUORUM in program
    (tmp_path / "program.py").write_text(program.replace(SHOWN_QUORUM, quorum.bootstrap_servers))
    assert run_program(tmp_path / "program.py").strip() == output.strip()
