"""Time for an empty replica to fetch a snapshot, compared with loopback TCP and the disk."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from benchmarks.children import STOP_SECONDS, BenchmarkError, poll_until, run_to_end
from benchmarks.context import Context
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.loads.large_state import RECORD_BYTES, STATE_BYTES
from benchmarks.processes import peak_resident_mib
from benchmarks.report import Aim, Section
from harness.node import NodeProcess, stop_all
from kraft_trio.client.admin import AdminClient

AIM_SHARE = 0.5
VALUE_BYTES = 1024
SECONDS = 600.0
OBSERVER = 9
OVERRIDES = {
    "kraft.state.machine": "benchmarks.loads.large_state:LargeState",
    "metadata.log.max.record.bytes.between.snapshots": str(2**60),
    "metadata.log.max.snapshot.interval.ms": "0",
}
LOOPBACK = (sys.executable, "-m", "benchmarks.loads.loopback")


@attrs.frozen
class Round:
    """Each of the three ways to have so many bytes on the other side, one after the other."""

    bytes: int
    fetched_seconds: float
    """From the first piece's arrival until the snapshot is whole, checked, fsynced and has its name."""
    tcp_seconds: float
    tcp_to_file_seconds: float
    leader_peak_mib: float
    observer_peak_mib: float
    """Until the snapshot is there: the state machine that is given it afterwards takes what it takes."""


async def measure(context: Context) -> Section:
    total_bytes, rounds = context.pick(1024, 256) << 20, context.pick(5, 3)
    measured: list[Round] = []
    with context.fresh_directory("snapshot-fetch") as directory:
        async with large_states(total_bytes, directory, {**context.overrides, **OVERRIDES}, voters=1) as cluster:
            leader = await cluster.leader()
            endpoint = cluster.endpoint(leader)
            taken = await AdminClient([endpoint]).take_snapshot(endpoint)
            size = taken.snapshots[-1].size_in_bytes
            for number in range(rounds):
                fetched_seconds, observer_peak_mib = await _fetch(cluster, directory / f"observer-{number}", size)
                measured.append(
                    Round(
                        size,
                        fetched_seconds,
                        await _loopback(size),
                        await _loopback(size, directory / "copy"),
                        peak_resident_mib(cluster.pids[leader]),
                        observer_peak_mib,
                    )
                )
                context.say(f"snapshot-fetch round {number + 1}: {_rates(measured[-1])}")
    return section_of(measured)


@asynccontextmanager
async def large_states(
    total_bytes: int, directory: Path, overrides: dict[str, str], *, voters: int
) -> AsyncIterator[KraftCluster]:
    """A quorum whose state machines have states of that size."""
    environment = {
        STATE_BYTES: str(total_bytes),
        RECORD_BYTES: str(VALUE_BYTES),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    async with KraftCluster.started(directory, overrides, voters, environment=environment) as cluster:
        yield cluster


async def _fetch(cluster: KraftCluster, directory: Path, size: int) -> tuple[float, float]:
    """Start an observer that has nothing; how long the download took it, and its most memory by then."""
    observer = await cluster.make_observer(OBSERVER, directory)
    partition = directory / "__cluster_metadata-0"
    cluster.start_process(observer)
    try:
        began = await poll_until("download", SECONDS, lambda: _when(partition, ".checkpoint.part", observer), 0.002)
        ended = await poll_until("snapshot", SECONDS, lambda: _when(partition, "1.checkpoint", observer), 0.002)
        peak_mib = peak_resident_mib(observer.pid)
        (path,) = [path for path in partition.iterdir() if path.name.endswith("1.checkpoint")]
        if path.stat().st_size != size:
            raise BenchmarkError(f"{path} has {path.stat().st_size} bytes, the leader's has {size}")
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(stop_all, [observer], STOP_SECONDS)
    await trio.to_thread.run_sync(_remove_all, directory)
    return ended - began, peak_mib


async def _when(directory: Path, suffix: str, observer: NodeProcess) -> float | None:
    if not observer.running:
        raise BenchmarkError(f"the observer ended with code {observer.exit_code}:\n{observer.log_text()[-2000:]}")
    return time.perf_counter() if any(name.endswith(suffix) for name in _names(directory)) else None


def _names(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.exists() else []


def _remove_all(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


async def _loopback(size: int, path: Path | None = None) -> float:
    flags = [] if path is None else ["--file", str(path)]
    seconds: float = json.loads(await run_to_end([*LOOPBACK, str(size), *flags], SECONDS))["seconds"]
    if path is not None:
        os.remove(path)
    return seconds


def _rates(one: Round) -> str:
    return ", ".join(
        f"{what} {one.bytes / 1e6 / seconds:.0f} MB/s"
        for what, seconds in (
            ("fetched", one.fetched_seconds),
            ("TCP", one.tcp_seconds),
            ("TCP to file", one.tcp_to_file_seconds),
        )
    )


def section_of(measured: list[Round]) -> Section:
    """The shares are medians over rounds: each download is held against what plain sockets do a moment later."""
    of_tcp = statistics.median(one.tcp_seconds / one.fetched_seconds for one in measured)
    of_file = statistics.median(one.tcp_to_file_seconds / one.fetched_seconds for one in measured)
    ways = (
        ("FetchSnapshot", [one.fetched_seconds for one in measured]),
        ("plain TCP", [one.tcp_seconds for one in measured]),
        ("plain TCP to a file", [one.tcp_to_file_seconds for one in measured]),
    )
    rows = [
        (
            what,
            f"{measured[0].bytes / 2**20:.0f}",
            f"{statistics.median(measured[0].bytes / 1e6 / some for some in seconds):.0f}",
            f"{statistics.median(seconds):.2f}",
        )
        for what, seconds in ways
    ]
    peaks = (max(one.leader_peak_mib for one in measured), max(one.observer_peak_mib for one in measured))
    return Section(
        name="snapshot-fetch",
        title="FetchSnapshot between two nodes",
        method=(
            "A node that has nothing is started next to a leader with a snapshot: from the first piece until the whole "
            "snapshot is there, every byte checked, fsynced, under its name. Then as many bytes through a plain socket "
            "of loopback, and through one to a file with an fsync at the end. Two processes each."
        ),
        columns=("what", "MiB", "MB/s", "median s"),
        rows=tuple(rows),
        aims=(
            Aim("50 % of plain TCP to a file or more", f"{of_file * 100:.0f} %", of_file >= AIM_SHARE),
            Aim("50 % of plain TCP or more", f"{of_tcp * 100:.0f} %", of_tcp >= AIM_SHARE),
        ),
        notes=(f"Peak memory: leader {peaks[0]:.0f} MiB, receiver {peaks[1]:.0f} MiB.",),
        data={"rounds": [attrs.asdict(one) for one in measured]},
    )
