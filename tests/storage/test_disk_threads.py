"""What waits for the disk has threads though all of Trio's are taken."""

from __future__ import annotations

import threading
from pathlib import Path

import trio
import trio.testing

from kraft_trio.storage.disk.real_disk import RealDisk


async def test_a_disk_needs_none_of_trios_threads(tmp_path: Path) -> None:
    released = threading.Event()
    limiter = trio.to_thread.current_default_thread_limiter()
    disk = RealDisk()
    async with trio.open_nursery() as nursery:
        for _ in range(int(limiter.total_tokens)):
            nursery.start_soon(trio.to_thread.run_sync, released.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert limiter.available_tokens == 0
        try:
            with trio.fail_after(60):
                file = disk.open(f"{tmp_path}/file", create=True)
                file.append(b"x")
                await file.sync()
                await file.sync_aside()
                file.close()
                await disk.replace(f"{tmp_path}/state", b"x")
                await disk.replace_aside(f"{tmp_path}/metrics", b"x")
                await disk.move(f"{tmp_path}/file", f"{tmp_path}/moved")
                await disk.remove_aside(f"{tmp_path}/moved")
        finally:
            released.set()
    assert disk.list_directory(str(tmp_path)) == ["metrics", "state"]
    disk.close()
