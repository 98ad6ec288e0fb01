"""Real file systems that run full and fail: a small tmpfs, and ext4 on a loop device whose end can be taken away.

Each is mounted over a directory, and the directory's files are copied to it.  Mounting requires root: otherwise the
test is skipped.  The file system is unmounted and the loop device detached even if the test fails.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from harness.quorum import Quorum
from tests.acceptance.conftest import MakeQuorum

_COMMAND_SECONDS: Final = 30.0

_FREEZE: Final = 0xC0045877
_THAW: Final = 0xC0045878
"""The ioctls that write out and freeze a file system, and thaw it."""

_LOOP_SET_CAPACITY: Final = 0x4C07
"""The ioctl that makes a loop device read the size of its file again, and keeps its file system's buffers."""


def _run(*command: str) -> str:
    """Run a command and return its output.  Raises AssertionError with its errors if it fails."""
    completed = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    assert completed.returncode == 0, f"{' '.join(command)}: {completed.stderr.strip()}"
    return completed.stdout.strip()


def _mount(*arguments: str) -> None:
    """Skips the test where mounting is not possible."""
    command = ["mount", *arguments]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a file system of its own")
    completed = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    if completed.returncode != 0:
        pytest.skip(f"{' '.join(command)}: {completed.stderr.strip()}")


def _unmount(directory: Path) -> None:
    # Also where a process that a failed test left behind still has files open.
    _run("umount", "--lazy", str(directory))


@contextmanager
def _moved_along(directory: Path) -> Iterator[None]:
    """Something is mounted over the directory: its files are copied there."""
    aside = directory.with_name(f"{directory.name}.below")
    shutil.copytree(directory, aside)
    yield
    shutil.copytree(aside, directory, dirs_exist_ok=True)


DiskT = TypeVar("DiskT")


@contextmanager
def quorum_on(
    make_quorum: MakeQuorum, mount: Callable[[Path], AbstractContextManager[DiskT]], **settings: Any
) -> Iterator[tuple[Quorum, dict[int, DiskT]]]:
    """Three voters, each on a disk of its own that `mount` makes, which run.  `settings` are those of `make_quorum`."""
    quorum = make_quorum(**settings)
    with ExitStack() as stack:
        disks = {node.id: stack.enter_context(mount(node.directory)) for node in quorum.nodes.values()}
        stack.callback(quorum.kill_all)
        quorum.start()
        yield quorum, disks


class SmallDisk:
    """A tmpfs over a directory: `leave_room` makes it nearly full, `enlarge` ends that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def leave_room(self, room_bytes: int) -> None:
        """Make it just so large that what is on it fits, and that many bytes more, in whole pages."""
        found = os.statvfs(self.directory)
        used = (found.f_blocks - found.f_bfree) * found.f_bsize
        self._resize(used + room_bytes)

    def enlarge(self) -> None:
        self._resize(SMALL_DISK_BYTES)

    def _resize(self, size: int) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self.directory))


SMALL_DISK_BYTES: Final = 64 * 1024 * 1024


@contextmanager
def small_disk(directory: Path) -> Iterator[SmallDisk]:
    """Mount a tmpfs over an existing directory."""
    with _moved_along(directory):
        _mount("-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(directory))
    try:
        yield SmallDisk(directory)
    finally:
        _unmount(directory)


class FailingDisk:
    """An ext4 over a directory, on a device of which all but the beginning can be taken away and given back."""

    def __init__(self, directory: Path, device: str, image: Path) -> None:
        self.directory = directory
        self._device = device
        self._image = image
        self._taken_away = b""

    def fail(self) -> None:
        """From now on what the page cache has not got cannot be read, and what is written cannot be synced: EIO.

        Whatever has been synced before is there again once it has healed.
        """
        _ioctl(self.directory, _FREEZE)
        try:
            with self._image.open("r+b") as image:
                image.seek(_WORKING_BYTES)
                self._taken_away = image.read()
                image.truncate(_WORKING_BYTES)
            self._look_at_size()
        finally:
            _ioctl(self.directory, _THAW)

    def heal(self) -> None:
        """All that was on it before can be read again; what could not be written is lost."""
        if self._taken_away:
            with self._image.open("r+b") as image:
                image.seek(_WORKING_BYTES)
                image.write(self._taken_away)
            self._taken_away = b""
            self._look_at_size()

    def forget_cached(self, path: Path) -> None:
        """Let a file, which must have been synced, be read from the device the next time."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)

    def _look_at_size(self) -> None:
        _ioctl(self._device, _LOOP_SET_CAPACITY)


def _ioctl(path: Path | str, request: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, request)
    finally:
        os.close(descriptor)


_FAILING_DISK_BYTES: Final = 16 * 1024 * 1024
_WORKING_BYTES: Final = 64 * 1024
"""The superblock; files are behind that, and so is what the kernel has in memory anyhow."""


@contextmanager
def failing_disk(directory: Path) -> Iterator[FailingDisk]:
    """Mount an ext4 on a loop device over an existing directory."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("losetup", "mkfs.ext4", "mount"))):
        pytest.skip("only root, with losetup and mkfs.ext4, can make a disk that fails")
    image = directory.with_name(f"{directory.name}.image")
    with image.open("wb") as file:
        file.truncate(_FAILING_DISK_BYTES)
    # Without a journal, whose own failure would be another story: then nothing could be written any more.
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", "-O", "^has_journal", str(image))
    completed = subprocess.run(
        ["losetup", "--find", "--show", str(image)],
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )
    if completed.returncode != 0:
        pytest.skip(f"losetup: {completed.stderr.strip()}")
    device = completed.stdout.strip()
    try:
        with _moved_along(directory):
            _mount("-o", "errors=continue", device, str(directory))
        disk = FailingDisk(directory, device, image)
        try:
            yield disk
        finally:
            disk.heal()
            _unmount(directory)
    finally:
        _run("losetup", "--detach", device)
        image.unlink()
