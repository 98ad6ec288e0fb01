"""What one linearizable read and one commit take the leader and a follower: counts, which a busy machine keeps."""

from __future__ import annotations

import json
import sys
from typing import Final

import trio

from benchmarks.children import run_to_end
from benchmarks.context import Context, run_load
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.report import Section

METHOD = (
    "One operation in flight, {number} of each, in the process of the node: Node.read_barrier and Node.append of 1 KiB "
    "at the leader of three, and the same commit at a follower, which may get several commits with one fetch. Each "
    "number is for one operation, the node's periodic tasks included. CPU, rounds, function calls (cProfile) and "
    "system calls (strace) come from runs of their own."
)
LOADS: Final = {
    "barrier": "read barrier, leader",
    "commit": "commit, leader",
    "follow": "commit, follower",
}
LEAST: Final = 0.05
"""What no column has so often is not shown."""
SECONDS: Final = 600.0
"""How long the counting of one operation may take."""


async def measure(context: Context) -> Section:
    number = context.pick(2000, 300)
    counted: dict[str, dict[str, float]] = {}
    with context.fresh_directory("anatomy") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            for operation in LOADS:
                context.say(f"counting: {LOADS[operation]}")
                counted[operation] = await _counted(cluster, operation, number)
    names = sorted({name for counts in counted.values() for name in counts}, key=_place)
    shown = [name for name in names if any(counts.get(name, 0) >= LEAST for counts in counted.values())]
    return Section(
        name="anatomy",
        title="What one operation takes",
        method=METHOD.format(number=number),
        columns=("for one operation", *LOADS.values()),
        rows=tuple((name, *(f"{counts.get(name, 0):,.1f}" for counts in counted.values())) for name in shown),
        data={"counted": counted},
    )


async def _counted(cluster: KraftCluster, operation: str, number: int) -> dict[str, float]:
    """Run one node as a load program; for a follower, let another program load the leader meanwhile."""
    leader = await cluster.leader()
    node = next(node for node in cluster.node_ids if node != leader)
    await cluster.stop(node)
    properties = str(cluster.quorum.nodes[node].properties)
    command = [sys.executable, "-m", "benchmarks.loads.anatomy", properties, operation, "--number", str(number)]
    text = ""
    async with trio.open_nursery() as nursery:
        if operation == "follow":
            endpoint = cluster.endpoint(leader)
            nursery.start_soon(lambda: run_load("kraft", endpoint.host, str(endpoint.port), seconds=SECONDS))
        text = await run_to_end(command, seconds=SECONDS)
        nursery.cancel_scope.cancel()
    await cluster.start(node)
    await cluster.all_caught_up()
    counted: dict[str, float] = json.loads(text)
    return counted


def _place(name: str) -> tuple[int, str]:
    order = ("CPU", "rounds", "steps", "messages", "system calls", "calls")
    return next(place for place, start in enumerate(order) if name.startswith(start)), name
