"""A log that is read slowly, or not at all, costs lines and never time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kraft_trio import background_log
from kraft_trio.background_log import BackgroundLog, BackgroundLogger, dropped_lines

WAIT_S = 30.0


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` waits for the thread, however long the machine keeps that from running."""
    monkeypatch.setattr(background_log, "END_S", WAIT_S)


class Pipe:
    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._logs: list[BackgroundLog] = []

    def log(self, **options: int) -> BackgroundLog:
        """One that writes to it, and ends before it."""
        self._logs.append(BackgroundLog(self.writing, **options))  # type: ignore[arg-type]
        return self._logs[-1]

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.reading)
        # Nobody can read any more, so no thread is left that waits for a reader.
        for log in self._logs:
            log.close()
            log._thread.join()
        os.close(self.writing)

    def fill(self) -> int:
        """So that the next write waits; how many bytes that took."""
        os.set_blocking(self.writing, False)
        filled = 0
        with suppress(BlockingIOError):
            while True:
                filled += os.write(self.writing, bytes(1024))
        os.set_blocking(self.writing, True)
        return filled

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += os.read(self.reading, size - len(data))
        return data

    def read_until(self, end: bytes) -> bytes:
        data = b""
        while not data.endswith(end):
            data += os.read(self.reading, 1)
        return data


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def test_lines_arrive_in_order(pipe: Pipe) -> None:
    log = pipe.log()
    print("one", 2, file=log)
    log.write("half ")
    log.write("line\nthree\n")
    assert pipe.read_until(b"three\n") == b"one 2\nhalf line\nthree\n"
    log.write("no newline")
    log.close()
    assert pipe.read(10) == b"no newline"


def test_lines_that_nobody_reads_are_dropped_and_told(pipe: Pipe) -> None:
    filled = pipe.fill()
    log = pipe.log(limit_bytes=1_000)
    kept = sum(log.put(f"{number:04}\n") for number in range(100))
    assert 0 < kept < 100
    assert dropped_lines() >= log.dropped_lines
    assert log.dropped_lines == 100 - kept
    pipe.read(filled)
    told = b"%d lines of the log are missing here: they could not be written\n" % (100 - kept)
    assert pipe.read_until(told) == b"".join(b"%04d\n" % number for number in range(kept)) + told
    log.close()


def test_warnings_have_room_when_others_have_none(pipe: Pipe) -> None:
    pipe.fill()
    log = pipe.log(limit_bytes=1_000)
    logger = BackgroundLogger(log)
    for _ in range(100):
        logger.info("chatter")
    dropped = log.dropped_lines
    assert dropped > 90
    logger.warning("it matters")
    logger.error("it matters more")
    assert log.dropped_lines == dropped


def test_a_closed_reader_costs_lines_and_nothing_else(pipe: Pipe) -> None:
    os.close(pipe.reading)
    log = pipe.log()
    for _ in range(3):
        log.put("nobody reads this\n")
    log.close()
    assert log.dropped_lines == 3


def test_a_full_device_is_tried_again() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        log = BackgroundLog(full.fileno())
        for _ in range(3):
            log.put("no room\n")
        log.close()
        assert log.dropped_lines == 3


def test_a_descriptor_that_must_not_block_is_waited_for(pipe: Pipe) -> None:
    filled = pipe.fill()
    os.set_blocking(pipe.writing, False)
    log = pipe.log()
    log.put("later\n")
    pipe.read(filled)
    assert pipe.read_until(b"later\n") == b"later\n"
    log.close()


def test_what_comes_after_the_end_is_dropped(pipe: Pipe) -> None:
    log = pipe.log()
    log.close()
    log.close()
    assert log.put("too late\n") is False


def test_close_does_not_wait_for_a_reader(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_log, "END_S", 0.01)
    pipe.fill()
    log = pipe.log()
    log.put("never read\n")
    ended = threading.Event()

    def close() -> None:
        log.close()
        ended.set()

    threading.Thread(target=close, daemon=True).start()
    assert ended.wait(WAIT_S)
