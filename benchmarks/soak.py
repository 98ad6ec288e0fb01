"""Whether throughput and memory stay the same over ten minutes of load."""

from __future__ import annotations

import statistics

import attrs

from benchmarks.children import BenchmarkError
from benchmarks.context import Context, run_load
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult
from benchmarks.processes import Memory, cpu_seconds, memory_of
from benchmarks.report import Aim, Section

PARTS = 10
IN_FLIGHT = 64
VALUE_BYTES = 1024
FLAT_MIB = 10.0
"""How much more anonymous memory a node may have after the last part than after the second."""
SLOWEST = 0.9
"""The rate of the last three parts together, of that of the first three; the machine varies by as much."""


@attrs.frozen
class Part:
    """A tenth of the load."""

    result: LoadResult
    cpu_us: float
    """Processor time of the three servers for one record."""
    memory: dict[int, Memory]
    """Of each node, afterwards."""


async def measure(context: Context) -> Section:
    seconds = context.pick(60, 6)
    with context.fresh_directory("soak") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            leader = await cluster.leader()
            parts = [await _part(context, cluster, leader, number, seconds) for number in range(1, PARTS + 1)]
            if await cluster.leader() != leader:
                raise BenchmarkError("the leader changed during the load: its parts cannot be compared")
    rates = [part.result.per_second for part in parts]
    ratio = statistics.fmean(rates[-3:]) / statistics.fmean(rates[:3])
    growth = {
        node: parts[-1].memory[node].anonymous_mib - parts[1].memory[node].anonymous_mib for node in parts[0].memory
    }
    return Section(
        name="soak",
        title=f"{PARTS * seconds / 60:.0f} minutes of load",
        method=(
            f"{IN_FLIGHT} single records of {VALUE_BYTES} bytes in flight at the leader of three, in {PARTS} parts of "
            f"{seconds} s. Memory is the anonymous part of each node's, after the part, the leader's first."
        ),
        columns=("part", "records/s", "p50 ms", "p99 ms", "servers' CPU µs/record", "memory MiB"),
        rows=tuple(
            (
                f"{number}",
                f"{part.result.per_second:,.0f}",
                f"{part.result.p50_ms:.2f}",
                f"{part.result.p99_ms:.2f}",
                f"{part.cpu_us:.0f}",
                ", ".join(
                    f"{part.memory[node].anonymous_mib:.1f}" for node in sorted(part.memory, key=lambda n: n != leader)
                ),
            )
            for number, part in enumerate(parts, 1)
        ),
        aims=flat_aims(ratio, max(growth.values())),
        data={"parts": [attrs.asdict(part) for part in parts]},
    )


async def _part(context: Context, cluster: KraftCluster, leader: int, number: int, seconds: int) -> Part:
    endpoint, pids = cluster.endpoint(leader), list(cluster.pids.values())
    load = (
        "kraft",
        endpoint.host,
        str(endpoint.port),
        "--in-flight",
        str(IN_FLIGHT),
        "--value-bytes",
        str(VALUE_BYTES),
    )
    before = cpu_seconds(pids)
    result = await run_load(*load, seconds=seconds)
    cpu_us = (cpu_seconds(pids) - before) / result.all_operations * 1e6
    part = Part(result, cpu_us, {node: memory_of(pid) for node, pid in cluster.pids.items()})
    context.say(f"part {number} of {PARTS}: {result.per_second:,.0f}/s, {part.memory[leader].anonymous_mib:.1f} MiB")
    return part


def flat_aims(ratio: float, growth_mib: float) -> tuple[Aim, Aim]:
    """The aims for the last rates, as a share of the first, and for the growth of a node's memory."""
    return (
        Aim(
            f"flat: the last three parts at least {SLOWEST} × the rate of the first",
            f"{ratio:.2f} ×",
            ratio >= SLOWEST,
        ),
        Aim(
            f"flat: at most {FLAT_MIB:.0f} MiB more after part {PARTS} than after part 2",
            f"largest {growth_mib:+.1f} MiB",
            growth_mib <= FLAT_MIB,
        ),
    )
