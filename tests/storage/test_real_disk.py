"""The fsync thread: who waits for what, and what a failure or a short write does."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from kraft_trio.storage.disk import file_syncs
from kraft_trio.storage.disk.disk_threads import FsyncThread
from kraft_trio.storage.disk.real_disk import RealDisk

pytestmark = pytest.mark.usefixtures("no_kernel_syncs")

DESCRIPTORS_A_WAITER = 1 if hasattr(os, "eventfd") else 2


class Device:
    """A job that lasts until it is told to end, and counts how often it ran."""

    def __init__(self) -> None:
        self.token = trio.lowlevel.current_trio_token()
        self.started = trio.Event()
        self.may_end = threading.Event()
        self.runs = 0

    def job(self) -> None:
        self.runs += 1
        self.token.run_sync_soon(self.started.set)
        assert self.may_end.wait(timeout=30)


async def test_a_cancelled_caller_waits_until_the_job_has_ended() -> None:
    thread = FsyncThread()
    device = Device()
    scope = trio.CancelScope()
    ended = trio.Event()

    async def caller() -> None:
        with scope:
            await thread.run("file", device.job)
            ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller)
        await device.started.wait()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not ended.is_set()
        device.may_end.set()
    assert ended.is_set()
    thread.close()


async def test_those_who_ask_during_a_sync_share_the_next_one() -> None:
    thread = FsyncThread()
    device = Device()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, "file", device.job)
        await device.started.wait()
        for _ in range(3):
            nursery.start_soon(thread.run, "file", device.job)
        await trio.testing.wait_all_tasks_blocked()
        device.may_end.set()
    # The first had begun before the others asked, so it could not serve them.
    assert device.runs == 2
    thread.close()


async def test_different_files_are_not_served_by_one_sync() -> None:
    thread = FsyncThread()
    device = Device()
    ran: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, "busy", device.job)
        await device.started.wait()
        nursery.start_soon(thread.run, "a", lambda: ran.append("a"))
        nursery.start_soon(thread.run, "b", lambda: ran.append("b"))
        await trio.testing.wait_all_tasks_blocked()
        device.may_end.set()
    assert sorted(ran) == ["a", "b"]
    thread.close()


async def test_every_waiting_caller_gets_the_failure() -> None:
    thread = FsyncThread()
    device = Device()
    failures = []

    def fail() -> None:
        raise OSError(errno.EIO, "gone")

    async def caller() -> None:
        try:
            await thread.run("file", fail)
        except OSError as error:
            failures.append(error.errno)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, "busy", device.job)
        await device.started.wait()
        nursery.start_soon(caller)
        nursery.start_soon(caller)
        await trio.testing.wait_all_tasks_blocked()
        device.may_end.set()
    assert failures == [errno.EIO, errno.EIO]
    thread.close()


async def test_a_failure_is_of_the_job_that_failed_alone() -> None:
    thread = FsyncThread()
    device = Device()
    ran: list[str] = []

    def fail() -> None:
        raise OSError(errno.EIO, "gone")

    async def failing() -> None:
        with pytest.raises(OSError, match="gone"):
            await thread.run("a", fail)
        ran.append("failed")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, "busy", device.job)
        await device.started.wait()
        nursery.start_soon(failing)
        nursery.start_soon(thread.run, "b", lambda: ran.append("b"))
        await trio.testing.wait_all_tasks_blocked()
        device.may_end.set()
    assert sorted(ran) == ["b", "failed"]
    await thread.run("a", lambda: ran.append("a"))
    assert ran[-1] == "a"
    thread.close()


def test_an_interrupted_caller_waits_until_the_job_has_ended() -> None:
    thread = FsyncThread()
    ended: list[str] = []

    async def main() -> None:
        device = Device()

        def interrupted_job() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            device.job()
            ended.append("job")

        async def watch() -> None:
            await device.started.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert ended == []
            device.may_end.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            with pytest.raises(KeyboardInterrupt):
                await thread.run("file", interrupted_job)
            ended.append("caller")

    trio.run(main)
    assert ended == ["job", "caller"]
    thread.close()


async def test_waiters_are_used_again_and_closed_with_the_thread() -> None:
    before = open_waiters()
    thread = FsyncThread()
    for _ in range(5):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(thread.run, object(), lambda: None)
    assert 1 <= open_waiters() - before <= 3 * DESCRIPTORS_A_WAITER
    thread.close()
    assert open_waiters() == before


async def test_a_waiter_is_closed_after_its_wait() -> None:
    before = open_waiters()
    thread = FsyncThread()
    device = Device()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, "file", device.job)
        await device.started.wait()
        device.may_end.set()
        thread.close()
    assert device.runs == 1
    assert open_waiters() == before


async def test_a_closed_thread_ends_and_a_later_job_starts_another() -> None:
    thread = FsyncThread()
    before = set(threading.enumerate())
    await thread.run("file", lambda: None)
    (started,) = set(threading.enumerate()) - before
    thread.close()
    assert not started.is_alive()
    await thread.run("file", lambda: None)
    thread.close()


async def test_sync_reaches_the_device_of_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(file_syncs, "sync_data", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    disk = RealDisk()
    file = disk.open(str(tmp_path / "a"), create=True)
    file.append(b"1")
    await file.sync()
    file.sync_now()
    file.close()
    disk.close()
    assert synced == [str(tmp_path / "a")] * 2


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: pwrite(fd, bytes(data)[:3], position))
    disk = RealDisk()
    file = disk.open(str(tmp_path / "a"), create=True)
    file.append(b"1234567890")
    file.append(b"xyz")
    assert file.read_at(0, 100) == b"1234567890xyz"
    file.close()


def test_a_failed_write_leaves_the_size_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk()
    file = disk.open(str(tmp_path / "a"), create=True)
    file.append(b"12")
    pwrite = os.pwrite
    left = [3]

    def full(fd: int, data: bytes, position: int) -> int:
        if not left:
            raise OSError(errno.ENOSPC, "full")
        return pwrite(fd, bytes(data)[: left.pop()], position)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="full"):
        file.append(b"34567890")
    assert file.size() == 2
    assert file.read_at(0, 10) == b"12"
    file.close()


def test_a_failed_replacement_keeps_only_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk()
    disk.replace_now(str(tmp_path / "a"), b"old")

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, "gone")

    monkeypatch.setattr(file_syncs, "sync_all", fail)
    with pytest.raises(OSError, match="gone"):
        disk.replace_now(str(tmp_path / "a"), b"new")
    assert disk.list_directory(str(tmp_path)) == ["a"]
    assert disk.read_bytes(str(tmp_path / "a")) == b"old"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_not_read(make: Callable[[str], None], tmp_path: Path) -> None:
    """At once: to open a named pipe could wait for ever."""
    path = str(tmp_path / "a.log")
    make(path)
    disk = RealDisk()
    before = open_descriptors()
    with pytest.raises(OSError, match=r"not a regular file: '.*/a\.log'"):
        disk.open_to_read(path)
    assert open_descriptors() == before


async def test_a_file_closed_during_a_sync_closes_after_the_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a")
    device = Device()
    monkeypatch.setattr(file_syncs, "sync_data", lambda _fd: device.job())
    disk = RealDisk()
    file = disk.open(path, create=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await device.started.wait()
        file.close()
        # The descriptor is still in use, and must not become another file's meanwhile.
        assert path in open_paths()
        device.may_end.set()
    assert path not in open_paths()
    disk.close()


def open_paths() -> set[str]:
    return set(open_descriptors())


def open_descriptors() -> list[str]:
    paths = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    return paths


def open_waiters() -> int:
    return sum("eventfd" in path or "socket" in path for path in open_descriptors())


async def test_replace_nowait_waits_for_neither_device_nor_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_descriptor: int) -> None:
        raise AssertionError("no fsync is asked for")

    disk = RealDisk()
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append(b"x")
    released, syncing = threading.Event(), threading.Event()

    def slow(_descriptor: int) -> None:
        syncing.set()
        assert released.wait(60)

    monkeypatch.setattr(file_syncs, "sync_data", slow)
    monkeypatch.setattr(file_syncs, "sync_all", refused)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.to_thread.run_sync(syncing.wait)
        with trio.fail_after(30):
            await disk.replace_aside(str(tmp_path / "aside"), b"new")
        assert (tmp_path / "aside").read_bytes() == b"new"
        released.set()
    file.close()
    disk.close()
