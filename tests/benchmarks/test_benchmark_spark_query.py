"""What queries of Spark are held against, and the directories that they read."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark`")

from benchmarks.spark_query import Queried, copies, section_of


def queried(label: str, one_core: float, two_cores: float) -> Queried:
    """Of a thousand rows, in those seconds; the median counts."""
    runs = {
        cores: {"rows": 1000, "seconds": [seconds, 100.0, seconds / 2]}
        for cores, seconds in ((1, one_core), (2, two_cores))
    }
    return Queried(label, 2**20 / 10, runs)


def test_rows_bytes_and_scaling() -> None:
    [row] = section_of([queried("records", 2.0, 1.0)], None, []).rows
    assert row == ("records", "500", "50", "1,000", "100", "2.00")


@pytest.mark.parametrize(("two_cores", "met"), [(1.0, True), (1.25, False)])
def test_two_cores_are_held_against_one(two_cores: float, met: bool) -> None:
    section = section_of([queried("records", 2.0, two_cores)], None, [])
    assert [aim.met for aim in section.aims] == [met]


def test_the_connector_is_compared_with_records_and_has_no_aim() -> None:
    ours = [queried("batches", 1.0, 1.0), queried("records", 2.0, 1.0)]
    section = section_of(ours, queried("connector", 8.0, 6.0), ["first"])
    assert len(section.rows) == 3
    assert len(section.aims) == 2
    assert section.notes == (
        "first",
        "records: 4.00 and 6.00 times as many rows a second as the connector, on one core and on two.",
    )


def test_copies_are_nodes_with_the_same_files(tmp_path: Path) -> None:
    partition = tmp_path / "node" / "__cluster_metadata-0"
    partition.mkdir(parents=True)
    (partition / "0.log").write_bytes(b"log")
    assert copies(tmp_path / "node", tmp_path / "copies", 2) == f"{tmp_path}/copies/node*"
    found = sorted((tmp_path / "copies").glob("*/*/*"))
    assert [path.relative_to(tmp_path / "copies").as_posix() for path in found] == [
        f"node{number}/__cluster_metadata-0/0.log" for number in (0, 1)
    ]
    assert {path.stat().st_ino for path in found} == {(partition / "0.log").stat().st_ino}
