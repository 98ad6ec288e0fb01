"""Latency of a linearizable read, one in flight: over the network, and in the process of the leader."""

from __future__ import annotations

import attrs

from benchmarks.context import Context, run_load
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult, median_result
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import COLUMNS, ETCD, OURS, Systems, compare, data_of, rows_of

METHOD = (
    "One read in flight at the leader of three: ours ReadIndex, etcd's a linearizable Range of a key that is not "
    "there. Both clusters run all the time and are loaded in turn; medians over {rounds} rounds of {seconds} s each "
    "(max: over all). The floor is a request that asks no other node. Then Node.read_barrier in a process that is the "
    "leader, without and with a lease (kraft.read.lease.max.clock.drift.ppm=1000)."
)
AIM = 0.5
LEASE = {"kraft.read.lease.max.clock.drift.ppm": "1000"}


async def measure(context: Context) -> Section:
    rounds, seconds = context.pick(7, 3), context.pick(10, 3)
    async with Systems.started(attrs.evolve(context, overrides={**context.overrides, **LEASE}), "leases") as systems:
        leased = await _embedded(context, systems.kraft, rounds, seconds)
    async with Systems.started(context, "reads") as systems:
        measured = await compare(context, systems, in_flight=1, rounds=rounds, seconds=seconds, operation="read")
        embedded = await _embedded(context, systems.kraft, rounds, seconds)
    aims: tuple[Aim, ...] = ()
    if ETCD in measured:
        ratio = embedded.p50_ms / measured[ETCD].median.p50_ms
        aims = (Aim(f"p50 of the embedded barrier below {AIM} × etcd's", f"{ratio:.2f} ×", ratio < AIM),)
    return Section(
        name="reads",
        title="Linearizable reads, one in flight",
        method=METHOD.format(rounds=rounds, seconds=seconds),
        columns=COLUMNS,
        rows=(
            *rows_of(measured),
            _row(f"{OURS}, in the leader", embedded),
            _row(f"{OURS}, in the leader, with a lease", leased),
        ),
        aims=aims,
        data={**data_of(measured), "embedded": attrs.asdict(embedded), "leased": attrs.asdict(leased)},
    )


async def _embedded(context: Context, cluster: KraftCluster, rounds: int, seconds: float) -> LoadResult:
    """Replace the process of one node by a load program that is this node and leads."""
    node = cluster.node_ids[0]
    await cluster.stop(node)
    properties = str(cluster.quorum.nodes[node].properties)
    overrides = [f"--override={key}={value}" for key, value in cluster.overrides.items()]
    results = []
    for number in range(rounds):
        results.append(await run_load("embedded", properties, *overrides, seconds=seconds))
        context.say(f"embedded, round {number + 1} of {rounds}: p50 {results[-1].p50_ms:.3f} ms")
    await cluster.start(node)
    return median_result(results)


def _row(system: str, result: LoadResult) -> tuple[str, ...]:
    times = (f"{result.p50_ms:.3f}", f"{result.p90_ms:.3f}", f"{result.p99_ms:.3f}", f"{result.max_ms:.1f}")
    return (system, *times, f"{result.per_second:,.0f}", "–", f"{result.client_cpu_us:.0f}", "–")
