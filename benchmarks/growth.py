"""Whether a log of many records and segments slows its nodes down, or makes them large or slow to start."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Final

import attrs
import trio

from benchmarks.children import BenchmarkError, run_to_end
from benchmarks.context import Context
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import ProducerResult
from benchmarks.processes import Memory, cpu_seconds, memory_of
from benchmarks.report import Section
from benchmarks.soak import PARTS, flat_aims

VALUE_BYTES: Final = 100
RECORD_BYTES: Final = 110
"""About what a record takes in the log."""
SEGMENTS: Final = 100
PART_SECONDS: Final = 900.0
SETTLE_SECONDS: Final = 2.0


@attrs.frozen
class Part:
    """A tenth of the records."""

    result: ProducerResult
    cpu_us: float
    """Processor time of the three servers for one record."""
    memory: dict[int, Memory]
    """Of each node, afterwards."""


@attrs.frozen
class Start:
    """A server with that log, until it listens."""

    what: str
    seconds: float
    memory: Memory | None
    """A moment later; None of a log that was opened in a process of its own."""


async def measure(context: Context) -> list[Section]:
    records = context.pick(10_000_000, 500_000)
    overrides = {**context.overrides, "metadata.log.segment.bytes": str(records * RECORD_BYTES // SEGMENTS)}
    with context.fresh_directory("growth") as directory:
        async with KraftCluster.started(directory, overrides) as cluster:
            leader = await cluster.leader()
            follower = next(node for node in cluster.node_ids if node != leader)
            await cluster.stop(follower)
            starts = [await _start(cluster, follower, "server, an empty log")]
            parts = [await _part(context, cluster, leader, number, records) for number in range(1, PARTS + 1)]
            if await cluster.leader() != leader:
                raise BenchmarkError("the leader changed during the load: its parts cannot be compared")
            log = cluster.quorum.nodes[follower].partition_directory
            segments = sorted(log.glob("*.log"))
            mib = sum(path.stat().st_size for path in segments) / 2**20
            await cluster.stop(follower)
            starts.append(await _open(log))
            starts.append(await _start(cluster, follower, "server, after a clean stop"))
            await cluster.kill(follower)
            starts.append(await _start(cluster, follower, "server, after kill -9"))
    return sections_of(parts, starts, leader, f"{records:,} records, {len(segments)} segments, {mib:,.0f} MiB")


async def _part(context: Context, cluster: KraftCluster, leader: int, number: int, records: int) -> Part:
    pids = list(cluster.pids.values())
    command = [sys.executable, "-m", "benchmarks.loads.producer", cluster.bootstrap_servers]
    options = ["--records", str(records // PARTS), "--value-bytes", str(VALUE_BYTES)]
    before = cpu_seconds(pids)
    result = ProducerResult.from_json(await run_to_end([*command, *options], PART_SECONDS))
    if result.records != records // PARTS:
        raise BenchmarkError(f"{result.failed} of {records // PARTS} records were not acknowledged")
    await cluster.all_caught_up()
    cpu_us = (cpu_seconds(pids) - before) / result.records * 1e6
    part = Part(result, cpu_us, {node: memory_of(pid) for node, pid in cluster.pids.items()})
    mib = part.memory[leader].anonymous_mib
    context.say(f"growth, part {number} of {PARTS}: {result.per_second:,.0f}/s, leader {mib:.1f} MiB")
    return part


async def _open(log: Path) -> Start:
    command = [sys.executable, "-m", "benchmarks.loads.log_files", "open", str(log)]
    answer = json.loads(await run_to_end(command, PART_SECONDS))
    return Start("Log.open, after a clean stop", answer["seconds"], None)


async def _start(cluster: KraftCluster, node: int, what: str) -> Start:
    began = time.perf_counter()
    process = cluster.quorum.nodes[node]
    cluster.start_process(process)
    await trio.to_thread.run_sync(process.wait_until_listening)
    seconds = time.perf_counter() - began
    await cluster.all_caught_up()
    await trio.sleep(SETTLE_SECONDS)
    return Start(what, seconds, memory_of(cluster.pids[node]))


def sections_of(parts: list[Part], starts: list[Start], leader: int, size: str) -> list[Section]:
    """The table of the tenths with its aims, and that of the starts."""
    rates = [part.result.per_second for part in parts]
    ratio = statistics.fmean(rates[-3:]) / statistics.fmean(rates[:3])
    growth = max(
        memory.anonymous_mib - parts[1].memory[node].anonymous_mib for node, memory in parts[-1].memory.items()
    )
    nodes = sorted(parts[0].memory, key=lambda node: node != leader)
    return [
        Section(
            name="growth",
            title=f"A log that grows: {size}",
            method=(
                f"Records of {VALUE_BYTES} bytes through librdkafka (acks=all, its own batching), in {PARTS} equal "
                "parts. Memory is the anonymous part of each node's, after the part, the leader's first."
            ),
            columns=("part", "records/s", "servers' CPU µs/record", "memory MiB"),
            rows=tuple(
                (
                    f"{number}",
                    f"{part.result.per_second:,.0f}",
                    f"{part.cpu_us:.1f}",
                    ", ".join(f"{part.memory[node].anonymous_mib:.1f}" for node in nodes),
                )
                for number, part in enumerate(parts, 1)
            ),
            aims=flat_aims(ratio, growth),
            data={"parts": [attrs.asdict(part) for part in parts]},
        ),
        Section(
            name="growth-start",
            title=f"Starting with that log: {size}",
            method=(
                f"A follower, from the start of its process until it listens, and its memory {SETTLE_SECONDS:.0f} s "
                "after it has caught up; and Log.open alone, in a process of its own, imports not counted. Once each."
            ),
            columns=("what", "s", "memory MiB", "of it anonymous"),
            rows=tuple(_row(start) for start in starts),
            data={"starts": [attrs.asdict(start) for start in starts]},
        ),
    ]


def _row(start: Start) -> tuple[str, ...]:
    if start.memory is None:
        return (start.what, f"{start.seconds:.3f}", "–", "–")
    memory = start.memory
    return (start.what, f"{start.seconds:.3f}", f"{memory.resident_mib:.1f}", f"{memory.anonymous_mib:.1f}")
