"""What the pages show of live quorums is run as it stands there, and prints what it says.

They are docs/how-to/stream-with-spark.md and docs/how-to/write-with-spark.md.
"""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue

import pytest
from pyspark.sql import SparkSession

from harness.quorum import Quorum
from kraft_trio.spark.live.lag import LagListener, SourceLag
from tests.acceptance.conftest import MakeQuorum
from tests.spark.documents import program
from tests.spark.live.programs import run_program
from tests.spark.live.to_parquet import SECONDS

SHOWN_QUORUM = "localhost:9093"
ATTEMPTS = 20


@pytest.mark.parametrize("heading", ["Stream", "Watch a stream", "Write"])
def test_a_program_prints_what_it_says(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path, heading: str
) -> None:
    quorum = in_its_first_epoch(make_quorum)
    if heading != "Write":
        quorum.produce(["first", "second", "third"])
    shown = program(heading)
    assert SHOWN_QUORUM in shown.text
    (tmp_path / "program.py").write_text(shown.text.replace(SHOWN_QUORUM, quorum.bootstrap_servers))
    expected = shown.output.replace(SHOWN_QUORUM, quorum.bootstrap_servers).strip()
    told: SimpleQueue[SourceLag] = SimpleQueue()
    listener = LagListener(told.put)
    spark.streams.addListener(listener)
    try:
        assert run_program(tmp_path / "program.py").strip() == expected
        if heading == "Watch a stream":
            lags = [told.get(timeout=SECONDS) for _ in range(2)]
            assert [(lag.batch_id, lag.end_offset, lag.lag) for lag in lags] == [(0, 4, 2), (1, 6, 0)]
    finally:
        spark.streams.removeListener(listener)


def in_its_first_epoch(make_quorum: MakeQuorum) -> Quorum:
    """A quorum whose first election succeeded, as the documents show it; on a busy machine it may fail."""
    for _ in range(ATTEMPTS):
        quorum: Quorum = make_quorum(1, is_steady=True)
        quorum.start()
        if quorum.described_by_leader()[1].leader_epoch == 1:
            return quorum
        quorum.kill_all()
    raise AssertionError(f"{ATTEMPTS} quorums have a leader in a later epoch only")
