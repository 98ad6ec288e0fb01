"""Disks whose flush takes a chosen time, the same for all systems: ext4 on loop devices over `slow_disk/`, in Rust.

A flush does not wait for the real disk.  A disk does one thing at a time: its writes wait while it is flushed.  So
three or more programs that sync one disk at the same time take more flushes than on a real one.  Give each its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from benchmarks.children import Child, poll_until, run_to_end, start_child

SOURCES = Path(__file__).parent / "slow_disk"
BUILT = Path(__file__).parents[1] / ".slow-disk"
PROGRAMS = ("cargo", "mkfs.ext4", "mount")
BUILD_SECONDS = 600.0
FORMAT_SECONDS = 60.0
START_SECONDS = 30.0
SET_SECONDS = 10.0
SIZE_BYTES = 8 << 30
"""The size of a disk.  Its image is sparse: it takes the space of what is written."""


def why_unavailable() -> str | None:
    """Say why there can be no slow disks on this machine, in one line; None if there can."""
    if not Path("/dev/fuse").exists() or not Path("/dev/loop-control").exists():
        return "there is no /dev/fuse or /dev/loop-control"
    if os.geteuid() != 0:
        return "only root may mount slow disks"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"these are not on PATH: {', '.join(missing)}" if missing else None


@attrs.define
class SlowDisks:
    """Mounted disks; made by `started`."""

    paths: tuple[Path, ...]
    child: Child
    """The program that flushes them."""
    _times_set: int = 0

    @classmethod
    @asynccontextmanager
    async def started(cls, directory: Path, count: int, size_bytes: int = SIZE_BYTES) -> AsyncIterator[SlowDisks]:
        """Mount new empty disks at `directory`/disk0 and so on, whose flushes take no time yet; remove them on exit.

        Builds the program if necessary.  A disk that is still in use on exit goes, and its users get errors.  If this
        process is killed, the program unmounts the disks too, but `directory` remains.
        """
        program = await _built()
        images, flushed, log = directory / "images", directory / "flushed", directory / "slow-disk.log"
        paths = tuple(directory / f"disk{number}" for number in range(count))
        await trio.Path(images).mkdir(parents=True)  # fails if the disks of another process are here
        try:
            for mount_point in (flushed, *paths):
                mount_point.mkdir()
            for number in range(count):
                await _format(images / str(number), size_bytes)
            log.unlink(missing_ok=True)  # of an earlier start in this directory
            command = [str(program), str(directory), str(count)]
            child = await start_child("slow-disk", command, log, stdin=subprocess.PIPE)
            try:
                disks = cls(paths, child)
                await poll_until("slow disk", START_SECONDS, disks._mounted)
                yield disks
            finally:
                await child.stop()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_remove, (images, flushed, *paths))

    async def set_delay(self, microseconds: int, slow_per_mille: int = 0, slow_us: int = 0) -> None:
        """Choose how long each flush takes from now on, and of how many in 1000, chosen at random, it is `slow_us`."""
        assert self.child.process.stdin is not None
        await self.child.process.stdin.send_all(f"{microseconds} {slow_per_mille} {slow_us}\n".encode())
        self._times_set += 1
        await poll_until("answer of slow-disk", SET_SECONDS, self._all_set, interval_seconds=0.005)

    async def _mounted(self) -> bool | None:
        self.child.check_running()
        return "mounted\n" in self.child.log_tail() or None

    async def _all_set(self) -> bool | None:
        self.child.check_running()
        answers = self.child.log.read_text().partition("mounted\n")[2]
        return answers.count("\n") >= self._times_set or None


async def _built() -> Path:
    build = ("cargo", "build", "--quiet", "--release", "--locked")
    await run_to_end([*build, "--manifest-path", f"{SOURCES}/Cargo.toml", "--target-dir", str(BUILT)], BUILD_SECONDS)
    return BUILT / "release" / "slow-disk"


async def _format(image: Path, size_bytes: int) -> None:
    """Make a file with an ext4 in it, complete, so that the kernel initializes nothing while it is measured."""
    with image.open("xb") as file:
        file.truncate(size_bytes)
    complete = "lazy_itable_init=0,lazy_journal_init=0"
    await run_to_end(["mkfs.ext4", "-q", "-E", complete, str(image)], FORMAT_SECONDS)


def _remove(directories: tuple[Path, ...]) -> None:
    images, *mount_points = directories
    shutil.rmtree(images, ignore_errors=True)
    for mount_point in mount_points:
        try:
            mount_point.rmdir()  # which fails if something is still mounted
        except OSError:
            pass
