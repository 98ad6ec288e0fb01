"""The arithmetic under what a campaign over Spark is held against, and the program that it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark`")

from benchmarks.spark_campaign import PROGRAM, WAYS, section_of


def runs(*seconds: float) -> list[dict[str, float]]:
    return [
        {"seconds": some + 3.0, "first_s": 3.0, "outcomes": 60, "virtual_s": 600.0, "chunks": 16, "session_s": 5.0}
        for some in seconds
    ]


def shares(pool: tuple[float, ...], spark: tuple[float, ...]) -> list[float]:
    """How much longer Spark takes: the same with one at a time."""
    return [some / other for some, other in zip(spark, pool, strict=True)]


@pytest.mark.parametrize(
    ("pool", "spark", "alone", "overhead", "scaling", "met"),
    [
        ((10.0, 10.0, 10.0), (10.5, 10.5, 10.5), (20.0, 20.0, 20.0), "+5.0%", "1.90", [True, True]),
        ((10.0, 10.0, 10.0), (11.0, 11.0, 11.0), (17.6, 17.6, 17.6), "+10.0%", "1.60", [False, False]),
        # A slow moment of the machine hits those of one round.
        ((10.0, 30.0, 10.0), (10.5, 31.5, 10.5), (20.0, 60.0, 20.0), "+5.0%", "1.90", [True, True]),
        ((10.0, 10.0, 10.0), (9.0, 9.0, 9.0), (18.0, 18.0, 18.0), "-10.0%", "2.00", [True, True]),
    ],
)
def test_each_round_is_held_against_its_own_pool(
    pool: tuple[float, ...],
    spark: tuple[float, ...],
    alone: tuple[float, ...],
    overhead: str,
    scaling: str,
    met: list[bool],
) -> None:
    measured = {
        ("pool", 2): runs(*pool),
        ("spark", 2): runs(*spark),
        ("pool", 1): runs(*(some / share for some, share in zip(alone, shares(pool, spark), strict=True))),
        ("spark", 1): runs(*alone),
    }
    section = section_of(measured)
    assert [aim.measured for aim in section.aims] == [overhead, scaling]
    assert [aim.met for aim in section.aims] == met
    assert len(section.rows) == len(WAYS)


@pytest.mark.rotating(5)
def test_the_program_runs_all_seeds_and_says_how_long(tmp_path: Path) -> None:
    command = [*PROGRAM, "pool", str(tmp_path / "out"), "--jobs", "2", "--seeds", "3", "--seconds", "1"]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout)
    assert answer["outcomes"] == 3
    assert answer["violations"] == 0
    assert answer["virtual_s"] >= 3
    assert answer["seconds"] > 0
    assert len(list((tmp_path / "out" / "results").iterdir())) == answer["chunks"]
    assert PROGRAM[0] == sys.executable
