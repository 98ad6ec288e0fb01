"""Syncs that the kernel makes, and what a file does with them."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.storage.disk import disk_threads
from kraft_trio.storage.disk.real_disk import RealDisk, RealFile
from kraft_trio.system import kernel_syncs
from kraft_trio.system.kernel_syncs import KernelSyncs

pytestmark = pytest.mark.skipif(kernel_syncs.kernel_syncs() is None, reason="this kernel makes no syncs for a process")


@pytest.fixture
def kernel() -> KernelSyncs:
    """One of its own, as if this process had just begun."""
    kernel_syncs.kernel_syncs.cache_clear()
    opened = kernel_syncs.kernel_syncs()
    assert opened is not None
    return opened


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RealFile]:
    disk = RealDisk()
    opened = disk.open(str(tmp_path / "file"), create=True)
    opened.append(b"x")
    yield opened
    opened.close()
    disk.close()


class Kernel:
    """Stands for one whose syncs take until the test ends them, and fail if it says so."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.error: OSError | None = None
        self.refuses = False
        self.taken = 0

    def begin(self, _descriptor: int, eventfd: int) -> int:
        if self.refuses:
            return 0
        self.begun.append(eventfd)
        return len(self.begun)

    def end(self) -> None:
        os.eventfd_write(self.begun[-1], 1)

    def take(self, number: int, eventfd: int) -> None:
        self.taken += 1
        assert eventfd == self.begun[number - 1]
        if self.error is not None:
            raise self.error


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    stand_in = Kernel()
    monkeypatch.setattr(kernel_syncs, "kernel_syncs", lambda: stand_in)
    return stand_in


@pytest.fixture
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the fsync thread was asked")

    monkeypatch.setattr(disk_threads.FsyncThread, "run", refuse)


def test_the_kernel_tells_of_the_end_by_the_eventfd(kernel: KernelSyncs, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as synced:
        synced.write(b"x" * 4096)
        synced.flush()
        eventfds = [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(3)]
        numbers = [kernel.begin(synced.fileno(), eventfd) for eventfd in eventfds]
        assert all(numbers)
        # The others' ends are kept for them.
        for number, eventfd in reversed(list(zip(numbers, eventfds, strict=True))):
            kernel.take(number, eventfd)
            assert os.eventfd_read(eventfd) == 1
            os.close(eventfd)


def test_each_sync_has_its_own_result(kernel: KernelSyncs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call tells of two syncs, and the others of none."""
    answers = itertools.chain([[(2, -errno.EIO), (1, 0)]], itertools.repeat([]))

    def call(_number: object, _context: object, _least: object, _most: object, events: Any, _timeout: object) -> int:
        told = next(answers)
        for event, (number, result) in zip(events, told, strict=False):
            event.data, event.result = number, result
        return len(told)

    monkeypatch.setattr(kernel, "_call", call)
    eventfd = os.eventfd(1)
    kernel.take(1, eventfd)
    with pytest.raises(OSError, match="Input/output") as raised:
        kernel.take(2, eventfd)
    assert raised.value.errno == errno.EIO
    with pytest.raises(OSError, match="does not tell the outcome"):
        kernel.take(3, eventfd)
    os.close(eventfd)


class Lock:
    """Stands for the one of the results, and says whether it is held."""

    is_held = False

    def __enter__(self) -> None:
        assert not self.is_held
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False


def test_a_thread_notes_its_events_before_another_asks(kernel: KernelSyncs, monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads have one buffer of events, and one has the results of the others."""
    lock = Lock()

    class Events:
        def __getitem__(self, _place: int) -> Any:
            assert lock.is_held
            return kernel_syncs._Event(data=1, result=0)

    class Ended(dict[int, int]):
        def pop(self, *arguments: Any) -> Any:
            assert lock.is_held
            return super().pop(*arguments)

    def call(*_: object) -> int:
        assert lock.is_held
        return 1

    for name, value in {"_lock": lock, "_events": Events(), "_ended": Ended(), "_call": call}.items():
        monkeypatch.setattr(kernel, name, value)
    kernel.take(1, eventfd=-1)
    assert not lock.is_held


def test_a_sync_of_no_file_is_not_taken(kernel: KernelSyncs) -> None:
    reading, writing = os.pipe()
    eventfd = os.eventfd(0)
    assert not kernel.begin(reading, 10**6)
    assert not kernel.begin(reading, eventfd)
    for descriptor in (reading, writing, eventfd):
        os.close(descriptor)


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (kernel_syncs.platform, "machine", lambda: "m68k"),
        (kernel_syncs.sys, "platform", "darwin"),
        (kernel_syncs.ctypes, "sizeof", lambda _kind: 4),
        # As under seccomp, and where all processes together have as many as fs.aio-max-nr allows.
        (kernel_syncs, "_NUMBERS", {kernel_syncs.platform.machine(): kernel_syncs._Numbers(100_000, 0, 0)}),
    ],
)
def test_where_the_kernel_makes_none(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object) -> None:
    monkeypatch.setattr(owner, name, value)
    assert kernel_syncs._opened() is None


def test_a_child_has_its_own(kernel: KernelSyncs) -> None:
    pid = os.fork()
    if not pid:
        os._exit(kernel_syncs.kernel_syncs() in (None, kernel))
    assert os.waitpid(pid, 0)[1] == 0
    assert kernel_syncs.kernel_syncs() is kernel


@pytest.mark.usefixtures("no_thread")
async def test_a_file_is_synced_by_the_kernel(file: RealFile) -> None:
    for _ in range(3):
        file.append(b"x")
        await file.sync()
    assert file.last_sync_ns > 0


async def test_what_the_kernel_does_not_take_is_left_to_the_thread(slow: Kernel, file: RealFile) -> None:
    slow.refuses = True
    await file.sync()
    file.sync_now()
    assert slow.taken == 0


@pytest.mark.usefixtures("no_thread")
async def test_a_failure_in_the_kernel_is_final(slow: Kernel, file: RealFile) -> None:
    slow.error = OSError(errno.EIO, "Input/output error")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails, file)
        await trio.testing.wait_all_tasks_blocked()
        slow.end()
    with pytest.raises(OSError, match="Input/output"):
        file.sync_now()
    assert slow.taken == 1


async def fails(file: RealFile) -> None:
    with pytest.raises(OSError, match="Input/output") as raised:
        await file.sync()
    assert raised.value.filename == file.path


@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "Input/output error")])
async def test_a_sync_in_place_waits_for_the_kernels(slow: Kernel, file: RealFile, error: OSError | None) -> None:
    """The kernel reports a failed write-back once: of two syncs at the same time, one would succeed."""
    slow.error = error
    ended: list[str] = []

    async def sync() -> None:
        if error is None:
            await file.sync()
        else:
            await fails(file)
        ended.append("kernel")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync)
        await trio.testing.wait_all_tasks_blocked()
        if error is None:
            file.sync_now()
        else:
            with pytest.raises(OSError, match="Input/output"):
                file.sync_now()
        assert (slow.taken, ended) == (1, [])
        slow.end()
    assert (slow.taken, ended) == (1, ["kernel"])


async def test_those_that_come_during_a_sync_share_the_next_one(slow: Kernel, file: RealFile) -> None:
    ended: list[int] = []

    async def sync(number: int) -> None:
        await file.sync()
        ended.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync, 1)
        await trio.testing.wait_all_tasks_blocked()
        for number in (2, 3, 4):
            nursery.start_soon(sync, number)
        await trio.testing.wait_all_tasks_blocked()
        assert (ended, len(slow.begun)) == ([], 1)
        slow.end()
        await trio.testing.wait_all_tasks_blocked()
        assert (ended, len(slow.begun)) == ([1], 2)
        slow.end()
    assert (ended[0], sorted(ended), len(slow.begun)) == (1, [1, 2, 3, 4], 2)


async def test_the_kernel_makes_none_while_a_thread_does(slow: Kernel, file: RealFile) -> None:
    """The thread would wait for the kernel's, and closing the disk for the thread."""
    slow.refuses = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        while not file._syncs.on_thread:
            await trio.lowlevel.checkpoint()
        slow.refuses = False
        nursery.start_soon(file.sync)
    assert slow.begun == []
    await file_is_usable(slow, file)


@pytest.mark.parametrize("is_first", [True, False])
def test_ctrl_c_waits_for_the_kernel(slow: Kernel, file: RealFile, is_first: bool) -> None:
    @trio.lowlevel.enable_ki_protection
    async def interrupt() -> None:
        await trio.testing.wait_all_tasks_blocked()
        signal.raise_signal(signal.SIGINT)
        await trio.testing.wait_all_tasks_blocked()
        assert slow.taken == 0
        slow.end()

    async def sync() -> None:
        async with trio.open_nursery() as nursery:
            if not is_first:
                nursery.start_soon(file.sync)
                await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(interrupt)
            with pytest.raises(KeyboardInterrupt):
                await file.sync()
        await file_is_usable(slow, file)

    trio.run(sync)
    assert slow.taken == 2


@pytest.mark.usefixtures("no_thread")
async def test_all_syncs_after_a_failure_fail(slow: Kernel, file: RealFile) -> None:
    slow.error = OSError(errno.EIO, "Input/output error")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails, file)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(fails_on_the_thread, file)
        slow.end()
    slow.error = None
    await fails_on_the_thread(file)


async def fails_on_the_thread(file: RealFile) -> None:
    """The thread would find the failure, too."""
    with pytest.raises(AssertionError, match="the fsync thread was asked"):
        await file.sync()


async def test_a_wait_that_fails_leaves_no_sync_behind(
    slow: Kernel, file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_descriptor: int) -> None:
        slow.end()
        raise OSError(errno.ENOSPC, "no watch is left")

    with monkeypatch.context() as failing:
        failing.setattr(trio.lowlevel, "wait_readable", fail)
        with pytest.raises(OSError, match="no watch is left"):
            await file.sync()
    assert slow.taken == 1
    await file_is_usable(slow, file)


async def test_a_cancelled_caller_waits_for_the_kernel(slow: Kernel, file: RealFile) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        threading.Timer(0.02, slow.end).start()
    assert slow.taken == 1
    await file_is_usable(slow, file)


async def file_is_usable(slow: Kernel, file: RealFile) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        slow.end()


async def test_a_file_closed_meanwhile_is_closed_at_the_end(slow: Kernel, file: RealFile) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        file.close()
        os.fstat(file._descriptor)
        slow.end()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file._descriptor)
