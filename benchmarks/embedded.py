"""A load in the process of the leader: no client, no connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.context import Context, run_load
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult, median_result


async def embedded_load(
    context: Context, cluster: KraftCluster, rounds: int, seconds: float, operation: str = "barrier", in_flight: int = 1
) -> LoadResult:
    """Replace the process of one node by a load program that is this node and leads."""
    results = []
    async with replaced_node(cluster) as node:
        for number in range(rounds):
            options = ("--operation", operation, "--in-flight", str(in_flight))
            results.append(await run_in_node(cluster, node, *options, seconds=seconds))
            context.say(f"embedded {operation}, round {number + 1} of {rounds}: p50 {results[-1].p50_ms:.3f} ms")
    return median_result(results)


@asynccontextmanager
async def replaced_node(cluster: KraftCluster) -> AsyncIterator[int]:
    """Stop the process of one node, and start it again on exit; the node's id."""
    node = cluster.node_ids[0]
    await cluster.stop(node)
    yield node
    await cluster.start(node)
    await cluster.all_caught_up()


async def run_in_node(cluster: KraftCluster, node: int, *options: str, seconds: float) -> LoadResult:
    """Run a load program that is this node, whose process is stopped."""
    properties = str(cluster.quorum.nodes[node].properties)
    overrides = [f"--override={key}={value}" for key, value in cluster.overrides.items()]
    return await run_load("embedded", properties, *overrides, *options, seconds=seconds)


def embedded_row(system: str, result: LoadResult) -> tuple[str, ...]:
    """A row of the table whose columns are `side_by_side.COLUMNS`."""
    times = (f"{result.p50_ms:.3f}", f"{result.p90_ms:.3f}", f"{result.p99_ms:.3f}", f"{result.max_ms:.1f}")
    return (system, *times, f"{result.per_second:,.0f}", "–", f"{result.client_cpu_us:.0f}", "–")
