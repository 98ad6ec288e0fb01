"""`kraft audit`: what it prints and keeps, its exit codes, and what it makes of bad input."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from .directories import write_directories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backups")
    write_directories(folder)
    return folder


@pytest.fixture
def damaged(backups: Path, tmp_path: Path) -> Path:
    """The same, a bit of node 2's log in the middle flipped, and a torn tail at node 3."""
    folder = tmp_path / "damaged"
    shutil.copytree(backups, folder)
    in_the_middle = folder / "node-2" / PARTITION / "00000000000000000014.log"
    content = bytearray(in_the_middle.read_bytes())
    content[100] ^= 1
    in_the_middle.write_bytes(content)
    last = folder / "node-3" / PARTITION / "00000000000000000022.log"
    last.write_bytes(last.read_bytes()[:-10])
    return folder


@pytest.fixture
def kraft(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command in this process, with the session of all tests."""
    monkeypatch.setattr("kraft_trio.spark.session", lambda *_arguments, **_options: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _self: None)
    return CliRunner()


def run(kraft: CliRunner, *arguments: str) -> tuple[int, list[str]]:
    from kraft_trio.cli.audit import audit

    result = kraft.invoke(audit, list(arguments), standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.return_value, result.output.splitlines()


def test_sound_backups_and_the_same_damaged(
    kraft: CliRunner, spark: SparkSession, backups: Path, damaged: Path, tmp_path: Path
) -> None:
    """One after the other, as a history is made of them."""
    out = tmp_path / "out"
    code, lines = run(kraft, f"{backups}/node-*", "--out", str(out))
    assert code == 0
    [report] = out.glob("report-*.html")
    assert lines[0] == f"report: {report}"
    assert lines[-1].startswith("1 cluster, ")
    assert lines[-1].endswith(" checks: 0 errors, 0 warnings")
    text = report.read_text(encoding="utf-8")
    assert "Nothing contradicts the protocol" in text
    for title in ("Leadership", "Voter sets", "Logs of the replicas", "Log growth"):
        assert title in text, f"no plot {title}"
    assert "<script" not in text
    assert "<link" not in text
    assert "src=" not in text

    code, lines = run(kraft, f"{damaged}/node-*", f"{damaged}/node-9", "--out", str(out))
    assert code == 1
    told = [line for line in lines if line.startswith(("error: ", "warning: "))]
    assert any(line.startswith("error: log_checksums: ") and "node-2" in line for line in told)
    assert any(line.startswith("warning: log_torn_tail: ") and "node-3" in line for line in told)
    assert any(line.startswith("error: log_is_readable: ") and "node-9" in line for line in told)
    history = spark.read.parquet(str(out / "results"))
    assert history.select("run_id").distinct().count() == 2
    violated = history.where("status = 'violated'").select("check").toArrow().column(0).to_pylist()
    assert {"log_checksums", "log_torn_tail", "log_is_readable"} <= set(violated)
    violations = spark.read.parquet(str(out / "violations"))
    assert violations.where("fact_a is null or fact_b is null or subject is null").count() == 0
    assert violations.where("check = 'log_torn_tail'").count() == 1


def test_bad_input(kraft: CliRunner, tmp_path: Path) -> None:
    from kraft_trio.spark.audit import AuditInputError

    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no trace")
    for arguments, named in (
        ([str(tmp_path / "nowhere")], "nowhere"),
        ([str(tmp_path / "empty")], "empty"),
        (["--trace", str(tmp_path / "nowhere")], "nowhere"),
        (["--trace", str(tmp_path / "text")], "text"),
        (["--check", "log_machting", str(tmp_path)], "log_machting"),
    ):
        with pytest.raises(AuditInputError, match=named):
            run(kraft, *arguments)
    assert AuditInputError.exit_code == 2
