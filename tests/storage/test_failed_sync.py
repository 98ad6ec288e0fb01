"""The real disk reports a failed fsync to every later caller (scenario S12)."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from kraft_trio.storage.disk import file_syncs
from kraft_trio.storage.disk.real_disk import RealDisk

pytestmark = pytest.mark.usefixtures("no_kernel_syncs")


async def test_a_later_sync_does_not_succeed_after_an_earlier_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of a failed write-back once for an open file; a second caller would hear of a success."""
    disk = RealDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    try:
        file.append(b"x")

        def fails(_descriptor: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as failing:
            failing.setattr(file_syncs, "sync_data", fails)
            with pytest.raises(OSError, match="Input/output"):
                await file.sync()
        with pytest.raises(OSError, match="Input/output"):
            file.sync_now()
        with pytest.raises(OSError, match="Input/output"):
            await file.sync()
    finally:
        file.close()
        disk.close()


async def test_a_sync_in_place_beside_a_failing_one_does_not_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A roll syncs in the thread of the event loop, perhaps while the fsync thread hears of the one failure."""
    token = trio.lowlevel.current_trio_token()
    started, may_fail = trio.Event(), threading.Event()
    calls = 0
    failures: list[str] = []

    def fails_once(_descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            token.run_sync_soon(started.set)
            assert may_fail.wait(timeout=30)
            raise OSError(errno.EIO, "Input/output error")

    async def sync() -> None:
        with pytest.raises(OSError, match="Input/output"):
            await file.sync()
        failures.append("on the thread")

    async def sync_now() -> None:
        with pytest.raises(OSError, match="Input/output"):
            await trio.to_thread.run_sync(file.sync_now)
        failures.append("in place")

    monkeypatch.setattr(file_syncs, "sync_data", fails_once)
    disk = RealDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync)
            await started.wait()
            nursery.start_soon(sync_now)
            try:
                await trio.testing.wait_all_tasks_blocked(0.1)
            finally:
                # Also where the test has failed: the fsync cannot be cancelled.
                may_fail.set()
    finally:
        file.close()
        disk.close()
    assert sorted(failures) == ["in place", "on the thread"]
    assert calls == 1
