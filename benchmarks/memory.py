"""Memory of a node, idle and after millions of records."""

from __future__ import annotations

import sys

import attrs
import trio

from benchmarks.children import BenchmarkError, run_to_end
from benchmarks.context import Context
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import ProducerResult
from benchmarks.processes import Memory, memory_of
from benchmarks.report import Aim, Section

VALUE_BYTES = 100
PARTS = 5
IDLE_SECONDS = 5.0
FLAT_MIB = 10.0
"""What a node may grow by between the first fifth of the records and the last: "flat"."""

Sample = dict[int, Memory]


async def measure(context: Context) -> Section:
    records = context.pick(5_000_000, 500_000)
    with context.fresh_directory("memory") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            leader = await cluster.leader()
            await trio.sleep(IDLE_SECONDS)
            samples = [_sample(cluster)]
            for part in range(PARTS):
                await _produce(cluster, records // PARTS)
                samples.append(_sample(cluster))
                resident = ", ".join(f"{memory.resident_mib:.0f}" for memory in samples[-1].values())
                context.say(f"memory after {records // PARTS * (part + 1):,} records: {resident} MiB")
            if await cluster.leader() != leader:
                raise BenchmarkError("the leader changed during the run: leader and followers cannot be told apart")

    rows, growths = [], []
    for node in cluster.node_ids:
        idle, first, last = (sample[node] for sample in (samples[0], samples[1], samples[-1]))
        growths.append(last.anonymous_mib - first.anonymous_mib)
        rows.append(
            (
                f"node {node}, {'leader' if node == leader else 'follower'}",
                *(f"{memory.resident_mib:.1f} ({memory.anonymous_mib:.1f})" for memory in (idle, first, last)),
                f"{growths[-1]:+.1f}",
            )
        )
    return Section(
        name="memory",
        title=f"Memory, idle and after {records:,} records",
        method=(
            f"Records of {VALUE_BYTES} bytes through librdkafka (acks=all, its own batching). Resident memory in MiB, "
            "in parentheses the anonymous part: what the process allocated, without pages of files."
        ),
        columns=("node", f"idle {IDLE_SECONDS:.0f} s", f"after {records // PARTS:,}", f"after {records:,}", "growth"),
        rows=tuple(rows),
        aims=(
            Aim(
                f"flat: at most {FLAT_MIB:.0f} MiB (anonymous) more after {records:,} than after {records // PARTS:,}",
                f"largest {max(growths):+.1f} MiB",
                max(growths) <= FLAT_MIB,
            ),
        ),
        data={"samples": [{node: attrs.asdict(memory) for node, memory in sample.items()} for sample in samples]},
    )


def _sample(cluster: KraftCluster) -> Sample:
    return {node: memory_of(pid) for node, pid in cluster.pids.items()}


async def _produce(cluster: KraftCluster, records: int) -> None:
    command = [sys.executable, "-m", "benchmarks.loads.producer", cluster.bootstrap_servers, "--records", str(records)]
    result = ProducerResult.from_json(await run_to_end([*command, "--value-bytes", str(VALUE_BYTES)], seconds=600))
    if result.records != records:
        raise BenchmarkError(f"{result.failed} of {records} records were not acknowledged")
    await cluster.all_caught_up()
