"""What runs an audit: DuckDB, or Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner

from kraft_trio.spark.audit.choice import BYTES_A_BATCH, SHARE_OF_MEMORY, fits_in_memory, needed_bytes
from kraft_trio.spark.directories.replicas import find_replicas
from tests.spark.directories import batches, make_node

from .conftest import run

BATCHES = 3000


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """More batches than are sampled."""
    return make_node(tmp_path, 1, (0, batches(0, [[b"." * 300]] * BATCHES)))


def test_memory_is_estimated_from_a_part_of_the_batches(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimated = needed_bytes(find_replicas([str(node)], allow_mixed_clusters=True))
    assert estimated == pytest.approx(BATCHES * BYTES_A_BATCH, rel=0.01)
    monkeypatch.setattr("kraft_trio.spark.audit.choice.memory_bytes", lambda: estimated / SHARE_OF_MEMORY)
    assert fits_in_memory([str(node)])
    monkeypatch.setattr("kraft_trio.spark.audit.choice.memory_bytes", lambda: estimated / SHARE_OF_MEMORY - 1)
    assert not fits_in_memory([str(node)])


@pytest.mark.parametrize("content", [b"", b"no batch at all" * 100])
def test_nothing_is_estimated_of_what_is_no_log(tmp_path: Path, content: bytes) -> None:
    replicas = find_replicas([str(make_node(tmp_path, 1, (0, content)))], allow_mixed_clusters=True)
    assert needed_bytes(replicas) == 0


@pytest.mark.parametrize(
    ("memory_bytes", "options", "expected"),
    [
        (2**40, [], None),
        (1, [], "local[*]"),
        (1, ["--engine", "duckdb"], None),
        (2**40, ["--engine", "spark"], "local[*]"),
        (2**40, ["--master", "spark://host:7077"], "spark://host:7077"),
        (2**40, ["--engine", "spark", "--master", "local[2]"], "local[2]"),
    ],
)
def test_which_engine(
    node: Path, monkeypatch: pytest.MonkeyPatch, memory_bytes: int, options: list[str], expected: str | None
) -> None:
    class Chosen(Exception):
        pass

    def session(master: str | None) -> None:
        raise Chosen(master)

    monkeypatch.setattr("kraft_trio.spark.audit.choice.memory_bytes", lambda: memory_bytes)
    monkeypatch.setattr("kraft_trio.cli.audit._session", session)
    with pytest.raises(Chosen) as chosen:
        run(CliRunner(), str(node), *options)
    assert chosen.value.args == (expected,)


@pytest.mark.parametrize("options", [["--trace"], ["--master", "local"]])
def test_duckdb_and_what_is_for_spark(node: Path, options: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--engine duckdb: --\w+.* is for Spark; expected one of the two"):
        run(CliRunner(), str(node), "--engine", "duckdb", *options)
