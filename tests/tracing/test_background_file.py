"""A file written by a thread of its own: whole records only, bounded memory, and a bad disk that nobody waits for."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
import structlog
import trio

from kraft_trio.tracing import background_file
from kraft_trio.tracing.background_file import BackgroundFile

RECORD = b"0123456789"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` waits for the thread, however long the machine keeps that from running."""
    monkeypatch.setattr(background_file, "_END_S", 30.0)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def until(path: Path, content: bytes) -> None:
    """Wait until the file has that content, while nobody closes it."""
    with trio.fail_after(30):
        while contents(path.parent)[path.name] != content:  # noqa: ASYNC110  nobody tells of a file
            await trio.sleep(0.01)


async def appended(file: BackgroundFile) -> None:
    """Append as soon as there is room: what the file has already counts until the thread has come back from it."""
    with trio.fail_after(30):
        while not file.append(RECORD):  # noqa: ASYNC110  nobody tells of room
            await trio.sleep(0.01)


async def test_what_is_appended_is_written_without_waiting_for_the_end(tmp_path: Path) -> None:
    file = BackgroundFile(tmp_path / "trace")
    for number in range(3):
        assert file.append(RECORD)
        await until(tmp_path / "trace", RECORD * (number + 1))
    file.append(b"last")
    await file.close()
    assert (tmp_path / "trace").read_bytes() == RECORD * 3 + b"last"
    assert not file.append(RECORD), "nothing is taken after the end"


async def test_what_is_there_is_renamed(tmp_path: Path) -> None:
    for content in (b"first", b"second", b"third"):
        file = BackgroundFile(tmp_path / "trace")
        file.append(content)
        await file.close()
    assert contents(tmp_path) == {
        "trace.1": b"first",
        "trace.2": b"second",
        "trace": b"third",
    }


class Disk:
    """Lets only so many bytes be written, as a full disk does: what still fits is written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self.refused = threading.Event()
        self._write = os.write
        monkeypatch.setattr(background_file.os, "write", self.write)
        monkeypatch.setattr(background_file, "_RETRY_S", 0.01)

    def write(self, descriptor: int, data: memoryview) -> int:
        if not self.room:
            self.refused.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


async def test_a_full_disk_is_said_once_and_leaves_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, room=len(RECORD) + 4)
    with structlog.testing.capture_logs() as logs:
        file = BackgroundFile(tmp_path / "trace", limit_bytes=3 * len(RECORD))
        file.append(RECORD)
        await until(tmp_path / "trace", RECORD)
        for _ in range(3):
            await appended(file)
        await trio.to_thread.run_sync(disk.refused.wait, 30)
        await until(tmp_path / "trace", RECORD)
        assert not file.append(RECORD), "memory is bounded"
        disk.room = 1000
        await until(tmp_path / "trace", RECORD * 4)
        await appended(file)
        await file.close()
    assert (tmp_path / "trace").read_bytes() == RECORD * 5
    assert [(entry["event"], entry["reason"]) for entry in logs] == [
        ("trace cannot be written", "No space left on device")
    ]


async def test_the_end_gives_up_on_a_disk_that_stays_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, room=0)
    file = BackgroundFile(tmp_path / "trace")
    file.append(RECORD)
    with trio.fail_after(30):
        await file.close()
    assert (tmp_path / "trace").read_bytes() == b""


async def test_the_end_is_one_more_attempt_and_drops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, room=0)
    monkeypatch.setattr(background_file, "_RETRY_S", 1000.0)
    file = BackgroundFile(tmp_path / "trace")
    file.append(RECORD)
    assert await trio.to_thread.run_sync(disk.refused.wait, 30)
    await appended(file)
    disk.room = 1000
    await file.close()
    assert (tmp_path / "trace").read_bytes() == RECORD * 2


async def test_nothing_stands_behind_what_the_end_has_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []
    write = os.write

    def refuse_twice(descriptor: int, data: memoryview) -> int:
        attempts.append(len(data))
        if len(attempts) < 3:
            refused.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    refused = threading.Event()
    monkeypatch.setattr(background_file.os, "write", refuse_twice)
    monkeypatch.setattr(background_file, "_RETRY_S", 1000.0)
    file = BackgroundFile(tmp_path / "trace")
    file.append(RECORD)
    assert await trio.to_thread.run_sync(refused.wait, 30)
    await appended(file)
    await file.close()
    assert attempts == [len(RECORD)] * 2
    assert (tmp_path / "trace").read_bytes() == b""


async def test_a_log_that_cannot_be_written_either_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, room=0)

    def warn(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(background_file.log, "warning", warn)
    file = BackgroundFile(tmp_path / "trace")
    file.append(RECORD)
    assert await trio.to_thread.run_sync(disk.refused.wait, 30)
    disk.room = 1000
    await until(tmp_path / "trace", RECORD)
    await file.close()


async def test_there_is_room_for_what_is_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, room=0)
    file = BackgroundFile(tmp_path / "trace", limit_bytes=len(RECORD))
    file.append(RECORD)
    assert not file.append(RECORD)
    assert file.append(b"last", is_last=True)
    disk.room = 1000
    await file.close()
    assert (tmp_path / "trace").read_bytes() == RECORD + b"last"


async def test_a_disk_that_hangs_keeps_neither_appends_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    write = os.write

    def hang(descriptor: int, data: memoryview) -> int:
        begun.set()
        goes_on.wait()
        return write(descriptor, data)

    monkeypatch.setattr(background_file.os, "write", hang)
    monkeypatch.setattr(background_file, "_END_S", 0.05)
    file = BackgroundFile(tmp_path / "trace")
    try:
        file.append(RECORD)
        assert await trio.to_thread.run_sync(begun.wait, 30)
        assert file.append(RECORD)
        with trio.fail_after(30):
            await file.close()
        assert (tmp_path / "trace").read_bytes() == b""
    finally:
        goes_on.set()
    await until(tmp_path / "trace", RECORD * 2)


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none/trace"):
        BackgroundFile(tmp_path / "none" / "trace")


async def test_a_disk_that_is_full_when_the_file_is_to_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_full, make = True, os.open

    def maybe(path: str, flags: int, mode: int) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return make(path, flags, mode)

    monkeypatch.setattr(background_file.os, "open", maybe)
    monkeypatch.setattr(background_file, "_RETRY_S", 0.01)
    file = BackgroundFile(tmp_path / "trace")
    file.append(RECORD)
    is_full = False
    with trio.fail_after(30):
        while not contents(tmp_path):  # noqa: ASYNC110
            await trio.sleep(0.01)
    await file.close()
    assert (tmp_path / "trace").read_bytes() == RECORD
