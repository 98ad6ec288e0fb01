"""The machine the numbers come from, and its floors: one fdatasync, one loopback round trip."""

from __future__ import annotations

import os
import platform
import socket
import statistics
import threading
import time
from importlib import metadata
from pathlib import Path

import attrs

from benchmarks.measurement import percentile

FSYNC_SECONDS = 0.5
PACKAGES = ("kraft-trio", "trio", "confluent-kafka", "grpcio")


@attrs.frozen
class Machine:
    """What a reader needs to judge the numbers."""

    processor: str
    processors: int
    memory_gib: float
    kernel: str
    python: str
    """Version, date of the build, and compiler.  Builds of one version differ by up to a fifth."""
    file_system: str
    versions: dict[str, str]
    """Installed versions by name; "not installed" where it is missing."""
    fdatasync_p50_ms: float
    """Of FsyncTimes before the first measurement, in the directory that the clusters use."""
    fdatasync_p99_ms: float
    round_trip_p50_ms: float
    """Median of sending 1 KiB to another thread over loopback TCP and getting a byte back."""
    load_average: float
    """Processes that wanted a processor in the minute before the run; the numbers of a busy machine are its own."""


def describe(directory: Path, etcd_version: str | None) -> Machine:
    """Measure the floors in that directory and collect the rest; takes about a second."""
    load_average = os.getloadavg()[0]
    syncs = fsync_times(directory, FSYNC_SECONDS)
    return Machine(
        processor=_processor(),
        processors=os.cpu_count() or 0,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        kernel=platform.release(),
        python=_python(),
        file_system=file_system_of(directory),
        load_average=round(load_average, 2),
        versions={name: _version(name) for name in PACKAGES} | {"etcd": etcd_version or "not installed"},
        fdatasync_p50_ms=syncs.p50_ms,
        fdatasync_p99_ms=syncs.p99_ms,
        round_trip_p50_ms=round(statistics.median(_round_trip_seconds(2000)) * 1000, 3),
    )


def file_system_of(directory: Path) -> str:
    """The type of the file system that holds the directory, from /proc/mounts; "unknown" elsewhere than on Linux."""
    resolved = directory.resolve()
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    holding = [(mount[1], mount[2]) for mount in mounts if resolved.is_relative_to(mount[1])]
    return max(holding, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def _python() -> str:
    build = ", ".join([" ".join(platform.python_build()), platform.python_compiler()])
    return f"{platform.python_version()} ({build})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


@attrs.frozen
class FsyncTimes:
    """What appending 1 KiB to a file and fdatasync took, as a person measures a disk.  It flushes an ext4 twice."""

    p50_ms: float
    p99_ms: float

    def __str__(self) -> str:
        return f"fdatasync of 1 KiB {self.p50_ms:.3f} ms p50, {self.p99_ms:.3f} ms p99"


def fsync_times(directory: Path, seconds: float) -> FsyncTimes:
    """Measure that in a new file of the directory for that long, which is removed."""
    taken: list[float] = []
    path = directory / "fdatasync-floor"
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        end = time.perf_counter() + seconds
        while not taken or time.perf_counter() < end:
            began = time.perf_counter()
            os.write(file, b"x" * 1024)
            os.fdatasync(file)
            taken.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(file)
        path.unlink()
    taken.sort()
    return FsyncTimes(round(percentile(taken, 0.5), 3), round(percentile(taken, 0.99), 3))


def _round_trip_seconds(count: int) -> list[float]:
    listener = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        connection, _ = listener.accept()
        with connection:
            left = 0
            while received := connection.recv(65536):
                left += len(received)
                if left == 1024:
                    left = 0
                    connection.sendall(b".")

    thread = threading.Thread(target=echo)
    thread.start()
    taken = []
    with listener, socket.create_connection(listener.getsockname()) as near:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            began = time.perf_counter()
            near.sendall(b"x" * 1024)
            near.recv(1)
            taken.append(time.perf_counter() - began)
    thread.join()
    return taken
