"""`kraft audit`: what it prints and keeps, its exit codes, and what it makes of bad input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kraft_trio.storage.directory.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    encode_meta_properties,
)
from tests.spark.conftest import IN_PARTS
from tests.spark.directories import make_kafkas

from .conftest import PARTITION, audit_of, damage, run
from .directories import write_directories
from .test_document import change_a_value

pytestmark = pytest.mark.rotating(2)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_fleet_is_partly_damaged_and_then_one_cluster_is_asked(kraft: CliRunner, damaged: Path, tmp_path: Path) -> None:
    """One after the other, as a history is made of them."""
    out = tmp_path / "out"
    code, lines = run(kraft, *make_fleet(tmp_path / "fleet"), "--out", str(out))
    assert code == 1
    rows = [line.split() for line in lines if not line.startswith(("error", "warning"))]
    rows_of = {row[0]: row[1:] for row in rows}
    assert rows_of["orders"] == ["35", "0", "0", "0"]
    assert rows_of["kafka"][2:] == ["0", "0"]
    assert rows_of["unknown"][2:] == ["2", "0"], "each of what cannot be read is told once"
    *_, errors, warnings = rows_of["payments"]
    assert int(errors) >= 1
    assert warnings == "1"
    assert [row[0] for row in rows].index("payments") < [row[0] for row in rows].index("orders"), "errors come first"
    assert lines[-1].startswith("4 clusters, 35 checks: ")
    told = [line for line in lines if line.startswith(("error: ", "warning: "))]
    assert any(line.startswith("error: log_checksums: payments, ") and "node-2" in line for line in told)
    assert any(line.startswith("warning: log_torn_tail: payments, ") and "node-3" in line for line in told)
    assert any(line.startswith("error: log_is_readable: unknown, ") and "node-9" in line for line in told)
    assert [line for line in told if "node-5" in line and "has no partition's directory" in line]

    [written] = out.glob("report-*.html")
    assert lines[0] == f"report: {written}"
    text = written.read_text(encoding="utf-8")
    for title in ("Leadership", "Voter sets", "Logs of the replicas", "Log growth"):
        assert title in text, f"no plot {title}"
    assert "<script" not in text
    assert "<link" not in text
    assert "src=" not in text

    code, lines = run(kraft, f"{damaged}/node-*", "--check", "log_torn_tail", "--out", str(out))
    assert (code, lines[-1]) == (0, "1 cluster, 1 check: 0 errors, 1 warning"), "a warning changes nothing"

    history = pq.read_table(out / "results").to_pylist()
    assert len({row["run_id"] for row in history}) == 2
    violated = {row["check"] for row in history if row["status"] == "violated"}
    assert violated >= {"log_checksums", "log_torn_tail", "log_is_readable"}
    violations = pq.read_table(out / "violations").to_pylist()
    assert [row for row in violations if None in (row["fact_a"], row["fact_b"], row["subject"])] == []
    assert len([row for row in violations if row["check"] == "log_torn_tail"]) == 2


def test_spark_at_a_master(spark: SparkSession, damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds and keeps what the command does without it, and leaves nothing in the scratch folder."""
    asked = []
    monkeypatch.setattr(
        "kraft_trio.cli.audit.quiet_session", lambda master, _name: asked.append(master) or nullcontext(spark)
    )
    kraft = CliRunner()
    here = run(kraft, f"{damaged}/node-*", "--check", "log_checksums")
    scratch = tmp_path / "scratch"
    options = ["--master", "local[2]", "--scratch", str(scratch), "--out", str(tmp_path / "out")]
    code, lines = run(kraft, f"{damaged}/node-*", "--check", "log_checksums", *options)
    assert (code, lines[1:]) == here
    assert asked == ["local[2]"]
    assert [*scratch.iterdir()] == []
    assert Path(lines[0].removeprefix("report: ")).exists()
    assert spark.read.parquet(f"{tmp_path}/out/results").count() == 1


def test_damage_is_repaired_from_a_replica_that_has_it_whole(
    kraft: CliRunner, backups: Path, damaged: Path, tmp_path: Path
) -> None:
    """By the commands that it prints: of a batch, of bytes that are no batch, and of a snapshot."""
    log = damaged / "node-4" / PARTITION / "00000000000000000014.log"
    content = bytearray(log.read_bytes())
    content[8:17] = bytes(9)
    log.write_bytes(content)
    snapshot = max((damaged / "node-1" / PARTITION).glob("*.checkpoint"))
    snapshot.write_bytes(snapshot.read_bytes()[:-5])
    code, lines = run(kraft, f"{damaged}/node-*")
    assert code == 1
    repairs = [line for line in lines if line.startswith("repair: ")]
    assert len(repairs) == 3
    first = f"repair: {damaged}/node-2, {log.name}, position "
    assert [line for line in repairs if line.startswith(first) and f"whole in {damaged}/node-1, " in line]
    for line in repairs:
        command, verify = line.partition("while the node is stopped: ")[2].split(" && ")
        subprocess.run(command, shell=True, check=True, capture_output=True)
        assert verify.startswith("kraft log verify ")
    for path in (log, snapshot, damaged / "node-2" / PARTITION / log.name):
        assert path.read_bytes() == (backups / path.relative_to(damaged)).read_bytes()
    _, lines = run(kraft, f"{damaged}/node-*")
    assert lines[-1].endswith("0 errors, 1 warning"), "the torn tail is no damage"


def test_replicas_that_disagree_repair_nothing(kraft: CliRunner, damaged: Path) -> None:
    """All that is told is who has it whole; another check tells that they differ."""
    change_a_value(damaged / "node-1" / PARTITION / "00000000000000000014.log", offset=14)
    _, lines = run(kraft, f"{damaged}/node-*")
    [repair] = [line for line in lines if line.startswith("repair: ")]
    assert repair.endswith(f": whole in {damaged}/node-1, {damaged}/node-3, {damaged}/node-4")


def make_fleet(folder: Path) -> list[str]:
    """The sound cluster `orders` and the damaged one `payments`, and a directory that Kafka has written.

    One more is no replica's, and one is not there.
    """
    for name in ("orders", "payments"):
        write_directories(folder / name, name)
    damage(folder / "payments")
    kafkas = make_kafkas(folder / "kafka", "dynamic")
    (kafkas / META_PROPERTIES).write_bytes(encode_meta_properties(MetaProperties("kafka", 1, UUID(int=1))))
    (folder / "none" / "node-5").mkdir(parents=True)
    (folder / "none" / "node-5" / "holiday.jpg").write_bytes(b"no log")
    return [f"{folder}/*/*", f"{folder}/orders/node-9"]


def test_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from kraft_trio.cli.audit_display import AuditProgress

    now_s = 0.0
    with AuditProgress(clock=lambda: now_s) as progress:
        for done in range(4):
            now_s += 25.0
            progress.next("log_damage", done, 4)
    assert capsys.readouterr().err == "audit: 2 of 4 steps, next is log_damage\n"


def test_report_without_violations_says_so() -> None:
    from kraft_trio.spark.audit.report import report

    assert "Nothing contradicts the protocol" in report(audit_of("run", is_violated=False))
    assert "Nothing contradicts the protocol" not in report(audit_of("run"))


def test_what_cannot_be_kept_is_shown(
    kraft: CliRunner, backups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kraft_trio.cli.audit import AuditFailedError, audit
    from kraft_trio.spark import audit as audits

    monkeypatch.setattr(audits, "audit", lambda *_arguments, **_options: audit_of("run"))
    (tmp_path / "results").write_text("no directory")
    result = kraft.invoke(audit, [f"{backups}/node-*", "--out", str(tmp_path)], standalone_mode=False)
    assert isinstance(result.exception, AuditFailedError)
    assert AuditFailedError.exit_code == 2, "no check has been violated"
    assert str(result.exception).startswith(f"{tmp_path}/results: cannot be written: ")
    assert result.output.endswith("1 cluster, 1 check: 1 error, 0 warnings\n")


def test_an_error_while_decoding_is_told_in_a_line(
    kraft: CliRunner, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kraft_trio.cli.audit import AuditFailedError
    from kraft_trio.errors import StorageError

    def read(*_arguments: object) -> Iterator[object]:
        raise StorageError("a.log: position 7: too large")
        yield

    monkeypatch.setattr("kraft_trio.spark.audit.local_engine.read_pieces", read)
    with pytest.raises(AuditFailedError, match=r"^a.log: position 7: too large$"):
        run(kraft, f"{backups}/node-*")


WITHOUT_SPARK = """
import sys

sys.modules["pyspark"] = None
from kraft_trio.cli.audit import audit

sys.exit(audit.main(sys.argv[1:], standalone_mode=False))
"""


@IN_PARTS
def test_spark_need_not_be_installed(backups: Path, damaged: Path) -> None:
    def kraft_audit(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT_SPARK, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    sound = kraft_audit(f"{backups}/node-*")
    assert (sound.returncode, sound.stdout.splitlines()[-1]) == (0, "1 cluster, 35 checks: 0 errors, 0 warnings")
    assert kraft_audit(f"{damaged}/node-*").returncode == 1
    for arguments in (["--trace", __file__], [f"{backups}/node-*", "--master", "local"]):
        assert "expected pip install 'kraft-trio[spark]'" in kraft_audit(*arguments).stderr


def test_bad_input(kraft: CliRunner, backups: Path, tmp_path: Path) -> None:
    from kraft_trio.spark.audit import AuditInputError

    nodes = f"{backups}/node-*"
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no directory")
    for arguments, named in (
        ([str(tmp_path / "nowhere")], "nowhere"),
        ([str(tmp_path / "empty")], "empty"),
        (["--trace", str(tmp_path / "nowhere")], "nowhere"),
        (["--check", "log_machting", str(tmp_path)], "log_machting"),
        (["--check", "trace_real_time_order", nodes], "trace_real_time_order: .*expected traces"),
        ([nodes, "--out", str(tmp_path / "text")], "text: File exists; expected a directory or a URL"),
    ):
        with pytest.raises(AuditInputError, match=named):
            run(kraft, *arguments)
    assert AuditInputError.exit_code == 2


def test_a_file_that_is_no_trace(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kraft_trio.spark.audit import AuditInputError

    monkeypatch.setattr("kraft_trio.cli.audit.quiet_session", lambda _master, _name: nullcontext(spark))
    (tmp_path / "text").write_text("no trace")
    with pytest.raises(AuditInputError, match="text"):
        run(CliRunner(), "--trace", str(tmp_path / "text"))
