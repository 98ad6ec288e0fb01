"""`Node.append` in the process of the leader and of a follower, compared with the wire client on the leader."""

from __future__ import annotations

import statistics
from typing import Final

import attrs

from benchmarks.context import Context, run_load
from benchmarks.embedded import replaced_node, run_in_node
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult, median_result
from benchmarks.processes import cpu_seconds
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import VALUE_BYTES

IN_FLIGHT: Final = (1, 64)
WIRE: Final = "wire client, leader"
LEADER: Final = "Node.append, leader"
FOLLOWER: Final = "Node.append, follower"
MOST: Final = {LEADER: 1.0, FOLLOWER: 1.5}
"""Aims for the p50 of one task, in times the wire client's."""
COLUMNS: Final = (
    "how, tasks",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "max ms",
    "per second",
    "CPU of all µs/record",
    "p50 : wire",
)
METHOD: Final = (
    "Tasks that append one record of 1 KiB after another: with Node.append in the process of the leader or a follower "
    "of three, or on connections to the leader from a client process. Interleaved; medians over {rounds} round(s) of "
    "{seconds} s (max: over all). The CPU is that of all processes, a client's included."
)


@attrs.frozen
class Run:
    """One round."""

    result: LoadResult
    cpu_us: float
    """Processor time of all processes for one record."""


async def measure(context: Context) -> Section:
    rounds, seconds = context.pick(3, 1), context.pick(6, 2)
    runs: dict[int, dict[str, list[Run]]] = {tasks: {WIRE: [], LEADER: [], FOLLOWER: []} for tasks in IN_FLIGHT}
    with context.fresh_directory("append") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            for number in range(rounds):
                for tasks, by_way in runs.items():
                    for way in by_way if number % 2 == 0 else reversed(by_way):
                        run = await _run(cluster, way, tasks, seconds)
                        by_way[way].append(run)
                        context.say(
                            f"{way}, {tasks} in flight, round {number + 1} of {rounds}: p50 {run.result.p50_ms:.2f} ms"
                        )
    return section_of(runs, METHOD.format(rounds=rounds, seconds=seconds))


async def _run(cluster: KraftCluster, way: str, tasks: int, seconds: float) -> Run:
    common = ("--in-flight", str(tasks), "--value-bytes", str(VALUE_BYTES))
    if way == WIRE:
        endpoint = cluster.endpoint(await cluster.leader())
        pids = list(cluster.pids.values())
        before = cpu_seconds(pids)
        result = await run_load("kraft", endpoint.host, str(endpoint.port), *common, seconds=seconds)
        return Run(result, result.client_cpu_us + (cpu_seconds(pids) - before) / result.all_operations * 1e6)
    async with replaced_node(cluster) as node:
        pids = [pid for other, pid in cluster.pids.items() if other != node]
        before = cpu_seconds(pids)
        role = ("--follower",) if way == FOLLOWER else ()
        result = await run_in_node(cluster, node, "--operation", "append", *role, *common, seconds=seconds)
        return Run(result, result.client_cpu_us + (cpu_seconds(pids) - before) / result.all_operations * 1e6)


def section_of(runs: dict[int, dict[str, list[Run]]], method: str) -> Section:
    """Make the table; the aims hold for one task."""
    rows, aims = [], []
    for tasks, by_way in runs.items():
        medians = {way: median_result([run.result for run in rounds]) for way, rounds in by_way.items()}
        for way, median in medians.items():
            ratio = median.p50_ms / medians[WIRE].p50_ms
            times = (median.p50_ms, median.p90_ms, median.p99_ms)
            cpu_us = statistics.median(run.cpu_us for run in by_way[way])
            rows.append(
                (
                    f"{way}, {tasks}",
                    *(f"{ms:.3f}" for ms in times),
                    *(f"{median.max_ms:.1f}", f"{median.per_second:,.0f}", f"{cpu_us:.0f}", f"{ratio:.2f}"),
                )
            )
            if tasks == 1 and way in MOST:
                aims.append(
                    Aim(f"p50 of {way} at most {MOST[way]} × the wire client's", f"{ratio:.2f} ×", ratio <= MOST[way])
                )
    return Section(
        name="append",
        title="Node.append, compared with the wire client",
        method=method,
        columns=COLUMNS,
        rows=tuple(rows),
        aims=tuple(aims),
        data={
            str(tasks): {way: [attrs.asdict(run) for run in rounds] for way, rounds in by_way.items()}
            for tasks, by_way in runs.items()
        },
    )
