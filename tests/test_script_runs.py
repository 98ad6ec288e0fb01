"""The frame of the scripts that play something: its exit codes, its folder, its verdicts."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from scripts.attacks import gauges
from scripts.common.background import Background
from scripts.common.run import impossible, running
from scripts.common.verdict import Verdict, table

HELD = Verdict("first", {"times": "12"}, held="withstood")
BROKEN = Verdict("second one", {"longest": "3 s"}, ("a node\nended", "a record is lost"))


def test_a_table_has_a_row_for_each_verdict() -> None:
    assert table("attack", [HELD, BROKEN]).splitlines() == [
        "| attack     | times | longest | verdict |",
        "|------------|-------|---------|---|",
        "| first      | 12    |         | withstood |",
        "| second one |       | 3 s     | a node ended; a record is lost |",
    ]


@pytest.mark.parametrize(("verdicts", "code"), [([], 0), ([HELD], 0), ([HELD, BROKEN], 1)])
def test_the_exit_code_is_1_if_anything_is_broken(
    verdicts: list[Verdict], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, running("test", "attack") as run:
        list(map(run.judged, verdicts))
    assert ended.value.code == code
    said = capsys.readouterr().out
    assert all(f"s  {verdict.subject}: {verdict.text}\n" in said for verdict in verdicts)


def test_a_folder_is_kept_if_asked_for(tmp_path: Path) -> None:
    kept: Path | None
    for kept in (None, tmp_path / "kept"):
        with pytest.raises(SystemExit), running("test", "attack", kept) as run:
            (run.home / "file").write_text("content")
        assert run.home.exists() == (kept is not None)


def test_an_absent_program_is_another_exit_code() -> None:
    with pytest.raises(SystemExit) as ended, running("test", "attack"):
        impossible("no etcd")
    assert ended.value.code == 2


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_tasks_end(signal_number: signal.Signals) -> None:
    before = signal.getsignal(signal_number)
    ended: list[str] = []

    async def main() -> None:
        try:
            signal.raise_signal(signal_number)
            await trio.sleep_forever()
        finally:
            ended.append("task")

    with pytest.raises(SystemExit) as left, running("test", "attack"):
        trio.run(main)
    assert (left.value.code, ended) == (130, ["task"])
    assert signal.getsignal(signal_number) == before


def test_an_error_beside_a_script_is_kept() -> None:
    class Failing(Background):
        def run(self) -> None:
            raise ValueError("no answer")

    with Failing("failing") as failing:
        pass
    assert not failing.is_alive
    assert repr(failing.error) == "ValueError('no answer')"


def test_a_gauge_that_fails_is_no_silent_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has measured nothing, so the attack was not withstood."""
    monkeypatch.setattr(gauges, "reset_peak_memory", lambda _pid: None)
    gauge = gauges.Gauge(SimpleNamespace(id=2, pid=0))  # type: ignore[arg-type]  # without an endpoint
    with gauge:
        pass
    [complaint] = gauge.complaints()
    assert complaint.startswith("the gauge of node 2 failed: AttributeError")
