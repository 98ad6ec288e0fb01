"""What observers cost the leader."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

from benchmarks.children import Child, poll_until, start_child, stopping
from benchmarks.context import Context, run_load
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult
from benchmarks.processes import cpu_seconds
from benchmarks.report import Section

NUMBERS: Final = (0, 1, 10, 50, 200)
START_SECONDS: Final = 120.0
METHOD: Final = (
    "One record of 1 KiB in flight at the leader of three voters, {seconds} s for each number of observers. One "
    "process sends the Fetch requests of all observers and stores nothing: servers would take 200 times 60 MiB, and "
    "more processor time than this machine has. It shares the processors with the quorum, so the latency includes its "
    "time; the leader's own processor time does not."
)
COLUMNS: Final = (
    *("observers", "p50 ms", "p99 ms", "per second", "leader's CPU µs/commit"),
    *("more for each observer µs", "observers' CPU µs/commit"),
)


@attrs.frozen
class Run:
    """Commits beside so many observers."""

    observers: int
    result: LoadResult
    leader_cpu_us: float
    """Processor time of the leader for one commit."""
    observers_cpu_us: float
    """That of the process that is all observers."""


async def measure(context: Context) -> Section:
    seconds = context.pick(10, 2)
    runs = []
    with context.fresh_directory("observers-leader") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            for number in NUMBERS:
                run = await _run(cluster, number, seconds, directory)
                context.say(f"{number} observers: p50 {run.result.p50_ms:.2f} ms, leader {run.leader_cpu_us:.0f} µs/op")
                runs.append(run)
    return section_of(runs, METHOD.format(seconds=seconds))


async def _run(cluster: KraftCluster, number: int, seconds: float, directory: Path) -> Run:
    leader = await cluster.leader()
    endpoint = cluster.endpoint(leader)
    async with _observing(cluster, leader, number, directory) as children:
        pids = [child.pid for child in children]
        before = cpu_seconds([cluster.pids[leader]]), cpu_seconds(pids)
        result = await run_load("kraft", endpoint.host, str(endpoint.port), seconds=seconds)
        for child in children:
            child.check_running()
        after = cpu_seconds([cluster.pids[leader]]), cpu_seconds(pids)
    leaders, observers = ((end - start) / result.all_operations * 1e6 for start, end in zip(before, after, strict=True))
    return Run(number, result, leaders, observers)


@asynccontextmanager
async def _observing(cluster: KraftCluster, leader: int, number: int, directory: Path) -> AsyncIterator[list[Child]]:
    if not number:
        yield []
        return
    endpoint = cluster.endpoint(leader)
    command = [sys.executable, "-m", "benchmarks.loads.observers", endpoint.host, str(endpoint.port)]
    log = directory / f"observers-{number}.log"
    child = await start_child("observers", [*command, "--number", str(number)], log, stdin=subprocess.PIPE)

    async def observing() -> bool | None:
        child.check_running()
        return "observe" in child.log_tail() or None

    async with stopping({0: child}):
        await poll_until("observers", START_SECONDS, observing)
        yield [child]


def section_of(runs: list[Run], method: str) -> Section:
    """The first run is without observers."""
    rows = []
    for run in runs:
        more = f"{(run.leader_cpu_us - runs[0].leader_cpu_us) / run.observers:.1f}" if run.observers else "–"
        rows.append(
            (
                f"{run.observers}",
                *(f"{run.result.p50_ms:.2f}", f"{run.result.p99_ms:.2f}", f"{run.result.per_second:,.0f}"),
                *(f"{run.leader_cpu_us:.0f}", more, f"{run.observers_cpu_us:.0f}"),
            )
        )
    return Section(
        name="observers-leader",
        title="What observers cost the leader, one 1 KiB record in flight",
        method=method,
        columns=COLUMNS,
        rows=tuple(rows),
        data={"runs": [attrs.asdict(run) for run in runs]},
    )
