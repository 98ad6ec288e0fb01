"""What a reader is told: numbers, missed aims, peers that were not there, measurements that failed."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks import etcd_cluster
from benchmarks.children import BenchmarkError
from benchmarks.context import Context
from benchmarks.machine import FsyncTimes, Machine
from benchmarks.measurement import LoadResult
from benchmarks.report import Aim, Report, Section, now
from benchmarks.side_by_side import COLUMNS, ETCD, OURS, Measured, rows_of
from harness import etcd as etcd_harness


def measured(p50_ms: float) -> Measured:
    result = LoadResult("client", 1000, 1.0, p50_ms, 1.5 * p50_ms, 2 * p50_ms, 3 * p50_ms, 4 * p50_ms, 50.0, 1100)
    return Measured(rounds=[result], floors=[result], server_cpu_us=[100.0])


def test_the_ratio_is_ours_to_etcds() -> None:
    *_, ratio = rows_of({OURS: measured(0.5), ETCD: measured(1.0)})
    assert dict(zip(COLUMNS, ratio, strict=True))["p50 ms"] == "0.50"


def test_a_missing_etcd_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ETCD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(etcd_harness, "BUILT", tmp_path)
    ours, missing = rows_of({OURS: measured(0.5)})
    assert ours[1] == "0.500"
    assert missing[0].startswith("etcd: NOT MEASURED, there is no etcd (scripts/get-etcd)")
    assert len(missing) == len(COLUMNS)


def test_a_missing_grpcio_is_a_reason_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    etcd = tmp_path / "etcd"
    etcd.write_text("#!/bin/sh\n")
    etcd.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "grpc", None)
    assert "pip install -r benchmarks/requirements.txt" in str(etcd_cluster.why_unavailable())


def section(**changes: object) -> Section:
    plain = Section("s", "A title", "How.", ("what", "ms"), (("ours", "1.0"),), (Aim("at most 0.5", "1.0", met=False),))
    return attrs.evolve(plain, **changes)


def report(*sections: Section) -> Report:
    machine = Machine("cpu", 2, 23.5, "6", "3.11", "ext4", {"etcd": "3.4"}, 0.05, 0.1, 0.02, 0.1)
    return Report(now(), "benchmarks/run s", "abc", False, {"a.b": "1"}, machine, sections)


def test_the_summary_names_everything_and_the_missed_aims() -> None:
    text = report(section(notes=("etcd was slow",))).markdown()
    for expected in ("`benchmarks/run s`", "revision abc", "2 × cpu", "etcd 3.4", "`a.b=1`", "| ours | 1.0 |"):
        assert expected in text
    assert "- Aim: at most 0.5: 1.0, **MISSED**" in text
    assert "- etcd was slow" in text


def test_each_table_tells_the_fdatasync_of_its_time() -> None:
    text = report(section(fsync=FsyncTimes(0.1, 2.5)), section()).markdown()
    assert text.count("Before it: fdatasync of 1 KiB 0.100 ms p50, 2.500 ms p99.") == 1


def test_a_disk_is_measured_in_a_file_that_goes(tmp_path: Path) -> None:
    times = command.machine.fsync_times(tmp_path, 0.01)
    assert 0 <= times.p50_ms <= times.p99_ms
    assert list(tmp_path.iterdir()) == []


def test_the_json_file_holds_every_number(tmp_path: Path) -> None:
    as_json, as_markdown = report(section(data={"rounds": [1, 2]})).write_to(tmp_path / "results")
    stored = json.loads(as_json.read_text())
    assert stored["sections"][0]["data"] == {"rounds": [1, 2]}
    assert stored["machine"]["fdatasync_p50_ms"] == 0.05
    assert as_markdown.read_text().startswith("# Benchmarks")


@pytest.mark.parametrize(
    "error",
    [
        BenchmarkError("no kraft leader within 30 s"),
        ExceptionGroup("from a nursery", [ExceptionGroup("", [BenchmarkError("no kraft leader within 30 s")])]),
    ],
)
def test_a_failed_measurement_is_reported_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    async def breaks(context: Context) -> Section:
        raise error

    async def works(context: Context) -> Section:
        return section(name="open")

    monkeypatch.setitem(command.MEASUREMENTS, "latency", breaks)
    monkeypatch.setitem(command.MEASUREMENTS, "open", works)
    arguments = ["latency", "open", "--directory", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    monkeypatch.setattr(command.machine, "file_system_of", lambda directory: "ext4")
    outcome = CliRunner().invoke(command.main, arguments)
    assert outcome.exit_code == 1
    (summary,) = (tmp_path / "results").glob("*.md")
    assert "FAILED: no kraft leader within 30 s" in summary.read_text()
    assert "| ours | 1.0 |" in summary.read_text()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_directory_where_fsync_does_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command.machine, "file_system_of", lambda directory: "tmpfs")
    outcome = CliRunner().invoke(command.main, ["open", "--directory", str(tmp_path)])
    assert outcome.exit_code == 2
    assert "fsync does nothing" in outcome.output


def test_an_override_without_a_value_is_refused() -> None:
    outcome = CliRunner().invoke(command.main, ["open", "--override", "node.id"])
    assert outcome.exit_code == 2
    assert "'node.id': expected KEY=VALUE" in outcome.output
