"""What replaces the calls that only Linux has, on this machine: each by itself, without the mode of tests/portable."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft_trio import NodeConfig, VoterSet, first_voter, format_node, random_uuid
from kraft_trio.errors import StorageError
from kraft_trio.storage.disk import disk_threads, file_syncs, real_lock
from kraft_trio.storage.disk.disk_threads import FsyncThread
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.system import connections, descriptors, durability, file_locks, file_systems, reserved_space, wake_ups


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


@pytest.fixture
def socket_waiters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_threads, "new_waiter", wake_ups.new_socket_waiter)
    monkeypatch.setattr(disk_threads, "wake", wake_ups.wake_by_socket)
    monkeypatch.setattr(disk_threads, "take", wake_ups.take_from_socket)
    monkeypatch.setattr(disk_threads, "close_waiter", wake_ups.close_socket_waiter)


# Wake-ups


@pytest.mark.usefixtures("socket_waiters")
async def test_jobs_of_many_callers_wake_each_through_its_socket() -> None:
    before = len(os.listdir("/dev/fd"))
    thread = FsyncThread()
    ran: list[int] = []
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(thread.run, number, lambda number=number: ran.append(number))
    assert sorted(ran) == [0, 1, 2, 3, 4]
    thread.close()
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.usefixtures("socket_waiters")
async def test_a_cancelled_caller_waits_for_its_socket_too() -> None:
    thread = FsyncThread()
    may_end = threading.Event()

    def wait_until_told() -> None:
        assert may_end.wait(60)

    with trio.CancelScope() as scope:
        scope.cancel()
        trio.lowlevel.current_trio_token().run_sync_soon(may_end.set)
        await thread.run("file", wait_until_told)
    assert may_end.is_set()
    thread.close()


def test_a_waiter_that_nobody_woke_cannot_be_taken() -> None:
    """Nobody may take a job for done that is not."""
    waiter = wake_ups.new_socket_waiter()
    with pytest.raises(BlockingIOError):
        wake_ups.take_from_socket(waiter)
    wake_ups.wake_by_socket(waiter, 1)
    wake_ups.take_from_socket(waiter)
    with pytest.raises(BlockingIOError):
        wake_ups.take_from_socket(waiter)
    wake_ups.close_socket_waiter(waiter)


# Durability


def test_macos_empties_the_cache_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: asked.append((descriptor, command)))
    there: dict[str, Any] = runpy.run_path(durability.__file__)
    there["sync_data"](3)
    there["sync_all"](4)
    assert asked == [(3, 51), (4, 51)]


def test_a_system_without_fdatasync_syncs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fdatasync", raising=False)
    there = runpy.run_path(durability.__file__)
    assert there["sync_data"] is there["sync_all"] is os.fsync


@pytest.mark.linux
def test_linux_calls_the_functions_of_os_themselves() -> None:
    assert (file_syncs.sync_data, file_syncs.sync_all) == (os.fdatasync, os.fsync)
    assert (disk_threads.wake, disk_threads.take) == (os.eventfd_write, os.eventfd_read)


def test_a_file_system_that_cannot_sync_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_descriptor: int) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(file_syncs, "sync_data", refused)
    monkeypatch.setattr(file_syncs, "sync_all", refused)
    disk = RealDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    expected = "the file system cannot sync; expected a local disk's"
    with pytest.raises(OSError, match=rf"{expected}: '{tmp_path}/file'"):
        file.sync_now()
    with pytest.raises(OSError, match=rf"{expected}: '{tmp_path}'"):
        disk.sync_directory(str(tmp_path))
    with pytest.raises(OSError, match=rf"{expected}: '{tmp_path}/other'"):
        disk.replace_now(str(tmp_path / "other"), b"x")
    file.close()
    disk.close()


# Reserved space


@pytest.mark.parametrize("code", [None, errno.EINVAL, errno.EOPNOTSUPP])
def test_space_is_reserved_by_zeros_where_it_cannot_be_asked_for(
    code: int | None, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        raise OSError(code, "cannot")

    if code is None:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    else:
        monkeypatch.setattr(os, "posix_fallocate", refused, raising=False)
    os.pwrite(descriptor, b"old", 0)
    for size in (5000, 10, 6000):
        reserved_space.reserve(descriptor, size)
    assert os.pread(descriptor, 10_000, 0) == b"old" + bytes(5997)


def test_a_full_disk_is_told_and_not_written_to(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        reserved_space.reserve(descriptor, 5000)
    assert os.fstat(descriptor).st_size == 0


# Locks


def test_a_lock_by_flock_alone_is_refused_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS and FreeBSD, where a record lock of the same process would be refused."""
    monkeypatch.setattr(real_lock, "lock", file_locks.flock)
    disk = RealDisk()
    lock = disk.lock(str(tmp_path / ".lock"))
    with pytest.raises(StorageError, match="the lock is held already"):
        disk.lock(str(tmp_path / ".lock"))
    lock.release()
    disk.lock(str(tmp_path / ".lock")).release()
    disk.close()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(real_lock, "lock", refused)
    disk = RealDisk()
    with pytest.raises(StorageError, match=r"/\.lock: the file system cannot lock files \(.*\); expected a local disk"):
        disk.lock(str(tmp_path / ".lock"))
    disk.close()


# The limit of open files


def test_an_unlimited_limit_is_raised_as_far_as_the_system_lets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, which says that there is no limit and refuses what is above its own."""
    tried: list[int] = []

    def at_most(_which: int, limits: tuple[int, int]) -> None:
        tried.append(limits[0])
        if limits[0] > 300_000:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", at_most)
    assert descriptors.raise_limit() == (2**18, "")
    assert tried == [2**20, 2**19, 2**18]


def test_a_limit_that_cannot_be_raised_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_which: int, _limits: tuple[int, int]) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", never)
    assert descriptors.raise_limit() == (256, "not allowed")


# Connections


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.create_connection(listening.getsockname()) as here:
            there, _ = listening.accept()
            with there:
                here.setblocking(False)
                yield here, there


def test_a_closed_connection_is_known_when_all_is_received(
    connected: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_TCP_INFO", None)
    here, there = connected
    assert not connections.closed_by_peer(here)
    there.sendall(b"x")
    there.close()
    assert not connections.closed_by_peer(here)
    here.setblocking(True)
    assert here.recv(1) == b"x"
    assert connections.closed_by_peer(here)  # waits for the end
    here.setblocking(False)
    assert connections.closed_by_peer(here)


def test_macos_has_another_name_for_the_idle_time(
    connected: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 4  # Linux's TCP_KEEPIDLE
    monkeypatch.delattr(socket, "TCP_KEEPIDLE", raising=False)
    monkeypatch.setattr(socket, "TCP_KEEPALIVE", number, raising=False)
    here, _ = connected
    connections.probe_when_idle(here)
    assert here.getsockopt(socket.IPPROTO_TCP, number) == 60


# Files in memory


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw
31 22 0:27 / /mnt rw shared:7 master:2 - nfs4 host:/export rw
"""


@pytest.mark.parametrize(("device", "kind"), [("254:0", "ext4"), ("0:26", "tmpfs"), ("0:27", "nfs4"), ("0:99", None)])
def test_kind_of_a_file_system(device: str, kind: str | None) -> None:
    assert file_systems._kind(MOUNTS, device) == kind


# Windows


WINDOWS = """
import ctypes, importlib, os, shutil, signal, sys, time
from types import SimpleNamespace

for name in MODULES:
    importlib.import_module(name)
for name in [name for name in sys.modules if name.partition(".")[0] == "kraft_trio"]:
    del sys.modules[name]
for module in ("fcntl", "resource", "termios", "pwd", "grp", "posix"):
    sys.modules[module] = None
for name in ("pread", "preadv", "pwrite", "pwritev", "fork", "register_at_fork", "eventfd", "fdatasync", "statvfs",
             "posix_fallocate", "posix_fadvise", "geteuid", "fchown", "uname", "sysconf", "sched_getaffinity",
             "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_DIRECTORY", "mkfifo", "major", "minor"):
    delattr(os, name)
for name in ("SIGHUP", "SIGQUIT", "SIGKILL", "setitimer", "SIGALRM", "SIGPROF"):
    delattr(signal, name)
del time.clock_gettime, time.CLOCK_MONOTONIC
shutil._use_fd_functions, shutil._rmtree_impl = False, shutil._rmtree_unsafe  # before and since Python 3.14
signal.SIGBREAK = 21
ctypes.windll = SimpleNamespace(
    kernel32=SimpleNamespace(GlobalMemoryStatusEx=lambda status: setattr(status._obj, "total", 2**33))
)
sys.platform = "win32"
"""
"""Imports the dependencies, which have files for Windows; then takes away what Python has not there."""


def on_windows(modules: list[str], program: str) -> subprocess.CompletedProcess[str]:
    emulated = f"MODULES = {modules!r}\n{WINDOWS}{program}"
    return subprocess.run([sys.executable, "-c", emulated], capture_output=True, text=True, check=False)


KRAFT = "from kraft_trio.cli import run\n"


@pytest.mark.linux
def test_windows_gets_one_line() -> None:
    done = on_windows(["kraft_trio.cli.serving.server"], f'{KRAFT}print(run(["server", "start", "-c", "no-file"]))')
    assert done.stdout == "1\n"
    assert done.stderr.count("\n") == 1
    assert "Windows is not supported for" in done.stderr
    assert "expected Linux, macOS or FreeBSD (docs/reference/systems.md)" in done.stderr


@pytest.mark.rotating(8)
@pytest.mark.linux
def test_audit_runs_on_windows(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    config = NodeConfig(node_id=1, listeners="CONTROLLER://127.0.0.1:9093", metadata_log_dir=str(tmp_path / "node"))
    format_node(config, cluster_id=random_uuid(), voters=VoterSet([first_voter(config)]))
    modules = ["kraft_trio.cli.audit", "kraft_trio.spark.audit.local_engine"]
    done = on_windows(modules, f"{KRAFT}print(run(['audit', {config.metadata_log_dir!r}]))")
    assert done.stdout.endswith("0 errors, 0 warnings\n0\n"), done.stderr
