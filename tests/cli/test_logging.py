"""What a node's log shows of what strangers send, and how often."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from kraft_trio.background_log import BackgroundLog
from kraft_trio.cli.serving.log_limits import MAX_EVENTS, MAX_LINES, PERIOD_S, LineLimit
from kraft_trio.cli.serving.logging import configure_logging, limit_texts
from kraft_trio.cli.terminal.escaping import MAX_TEXT
from kraft_trio.logs import shortened_texts

HOSTILE = "\x1b[2J\nforged=line \u202e" + "x" * 100_000


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class TestHostileText:
    def test_console_lines_are_escaped_and_cut(self, capsys: pytest.CaptureFixture[str]) -> None:
        configure_logging("console", "info")
        log: Any = structlog.get_logger("x")
        log.warning("connection closed", reason=HOSTILE, peers=[HOSTILE, {HOSTILE: HOSTILE}], raw=HOSTILE.encode())
        written = capsys.readouterr().err
        assert len(written.splitlines()) == 1
        assert written.rstrip("\n").isprintable()
        assert len(written) < 10_000

    def test_json_lines_are_cut(self, capsys: pytest.CaptureFixture[str]) -> None:
        configure_logging("json", "info")
        log: Any = structlog.get_logger("x")
        log.warning("connection closed", reason=HOSTILE, peers=[HOSTILE] * 3)
        written = capsys.readouterr().err
        assert written.rstrip("\n").isascii()
        assert len(written) < 10_000
        assert json.loads(written)["reason"].startswith("\x1b[2J\nforged")

    @pytest.mark.parametrize("log_format", ["console", "json"])
    def test_a_traceback_forges_no_lines(self, log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
        configure_logging(log_format, "info")
        secret = "record content that is a local variable"
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            structlog.get_logger("x").exception("answer cannot be sent", size=len(secret))
        first, *others = capsys.readouterr().err.splitlines()
        assert "answer cannot be sent" in first
        assert all(line.startswith("    ") and line.isprintable() for line in others)
        assert sum(map(len, others)) < 50_000
        assert secret not in first

    @pytest.mark.parametrize("log_format", ["console", "json"])
    def test_length_of_a_text_is_configured_and_counted(
        self, log_format: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        configure_logging(log_format, "info")
        before = shortened_texts()
        try:
            for characters in (50, 5000):
                limit_texts(characters)
                structlog.get_logger("x").info("event", short="s" * 50, long="l" * 5001)
                written = capsys.readouterr().err
                assert "s" * 50 in written
                assert "l" * characters in written
                assert "l" * (characters + 1) not in written
        finally:
            limit_texts(MAX_TEXT)
        assert shortened_texts() - before == 2

    def test_many_items_are_cut(self, capsys: pytest.CaptureFixture[str]) -> None:
        configure_logging("json", "info")
        structlog.get_logger("x").info("voters", ids=list(range(1_000_000)))
        assert json.loads(capsys.readouterr().err)["ids"][99:] == [99, "… (999900 more)"]


class TestLimit:
    def test_repeated_lines_are_left_out_and_counted(self) -> None:
        now_s = [0.0]
        limit = LineLimit(lambda: now_s[0])

        def passes(event: str, method: str = "warning") -> bool:
            try:
                limit(None, method, {"event": event})
            except structlog.DropEvent:
                return False
            return True

        assert [passes("connection closed") for _ in range(100)] == [True] * MAX_LINES + [False] * (100 - MAX_LINES)
        assert passes("connection closed", "error")
        assert passes("storage poisoned", "error")
        assert limit.left_out() == []
        now_s[0] = PERIOD_S
        assert limit.left_out() == [("connection closed", "warning", 100 - MAX_LINES)]
        assert limit.left_out() == []
        assert passes("connection closed")

    def test_at_the_end_all_is_told(self) -> None:
        limit = LineLimit(lambda: 0.0)
        for _ in range(MAX_LINES):
            limit(None, "info", {"event": "a"})
        with pytest.raises(structlog.DropEvent):
            limit(None, "info", {"event": "a"})
        assert limit.left_out(at_once=True) == [("a", "info", 1)]

    def test_events_that_nobody_counted_on_share_a_limit(self) -> None:
        limit = LineLimit(lambda: 0.0)
        passed = 0
        for number in range(MAX_EVENTS * 2):
            try:
                limit(None, "info", {"event": str(number)})
                passed += 1
            except structlog.DropEvent:
                pass
        assert passed == MAX_EVENTS + MAX_LINES

    @pytest.mark.parametrize("log_format", ["console", "json"])
    def test_the_log_says_what_it_left_out(self, log_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
        reading, writing = os.pipe()
        stderr = BackgroundLog(writing)
        monkeypatch.setattr("sys.stderr", stderr)
        configure_logging(log_format, "info")
        log: Any = structlog.get_logger("x")
        for _ in range(MAX_LINES + 5):
            log.warning("connection closed", reason="because")
        stderr.close()
        os.close(writing)
        with open(reading, encoding="utf-8") as written:
            lines = written.read().splitlines()
        assert len(lines) == MAX_LINES + 1
        assert "log lines left out: too many alike" in lines[-1]
        if log_format == "json":
            told = json.loads(lines[-1])
            assert (told["line"], told["lines"], told["line_level"]) == ("connection closed", 5, "warning")
