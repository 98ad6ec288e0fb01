"""Load our quorum and etcd in alternating rounds on the same disk.

Both clusters run from the first round to the last, and only one of them is loaded at a time.  Starting a cluster for
each round would put a cold start (imports, connections, an empty log) into every round.  An idle cluster costs the
other one only a few heartbeats a second.  The order alternates, so that a machine that slows down favours neither.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import MappingProxyType

import attrs

from benchmarks import etcd_cluster
from benchmarks.children import BenchmarkError
from benchmarks.context import Context, run_load
from benchmarks.etcd_cluster import EtcdCluster
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult, median_result
from benchmarks.processes import cpu_seconds

VALUE_BYTES = 1024
FLOOR_SECONDS = 1.0

OURS = "kraft-trio"
ETCD = "etcd"

AIM_TIME = 0.9
"""At most so much of etcd's p50 and p99, with one in flight."""
AIM_CPU = 0.85
"""At most so much of the processor time of its servers, with one in flight."""
AIM_RATE = 1.8
"""At least so many times etcd's rate, with many in flight."""


@attrs.define
class Measured:
    """The rounds of one system."""

    rounds: list[LoadResult] = attrs.field(factory=list)
    floors: list[LoadResult] = attrs.field(factory=list)
    """The same client against the same server, with a request that commits nothing."""
    server_cpu_us: list[float] = attrs.field(factory=list)
    """Processor time of the three servers for one operation, in microseconds, by round."""

    @property
    def median(self) -> LoadResult:
        return median_result(self.rounds)

    @property
    def floor(self) -> LoadResult:
        return median_result(self.floors)


Load = Callable[[str, float], Awaitable[LoadResult]]
"""Called with the operation ("commit", "read" or "floor") and the seconds."""


@attrs.frozen
class Systems:
    """The clusters that run."""

    kraft: KraftCluster
    etcd: EtcdCluster | None

    @classmethod
    @asynccontextmanager
    async def started(
        cls, context: Context, name: str, by_node: Mapping[int, Mapping[str, str]] = MappingProxyType({})
    ) -> AsyncIterator[Systems]:
        """Start both, or ours alone where etcd is missing; stopped and removed on exit."""
        with context.fresh_directory(name) as directory:
            async with AsyncExitStack() as stack:
                context.say("starting three kraft nodes")
                kraft = await stack.enter_async_context(
                    KraftCluster.started(directory / "kraft", context.overrides, by_node=by_node)
                )
                etcd = None
                if etcd_cluster.why_unavailable() is None:
                    context.say("starting three etcd members")
                    etcd = await stack.enter_async_context(EtcdCluster.started(directory / "etcd"))
                yield cls(kraft, etcd)


LoadOf = Callable[[Systems, str, int], Awaitable[tuple[Load, list[int]]]]
"""Called with the system and how many requests are in flight; returns how to load it now, and its process ids."""


async def compare(
    context: Context,
    systems: Systems,
    in_flight: int,
    rounds: int,
    seconds: float,
    operation: str = "commit",
    load_of: LoadOf | None = None,
    value_bytes: int = VALUE_BYTES,
    floors: bool = True,
) -> dict[str, Measured]:
    """Run the rounds; the key is OURS or ETCD.  Raises BenchmarkError when an acknowledged record is not in the log.

    Without `floors`, these are not measured.
    """
    measured = {OURS: Measured()} | ({ETCD: Measured()} if systems.etcd else {})
    high_watermark_before = await systems.kraft.high_watermark()
    for number in range(rounds):
        order = list(measured)
        for system in order if number % 2 == 0 else reversed(order):
            into = measured[system]
            load, pids = await (load_of or partial(_load_of, value_bytes))(systems, system, in_flight)
            cpu_before = cpu_seconds(pids)
            result = await load(operation, seconds)
            into.server_cpu_us.append((cpu_seconds(pids) - cpu_before) / result.all_operations * 1e6)
            into.rounds.append(result)
            if floors:
                into.floors.append(await load("floor", FLOOR_SECONDS))
            context.say(
                f"{in_flight} in flight, round {number + 1} of {rounds}: {system} p50 {result.p50_ms:.2f} ms, "
                f"p99 {result.p99_ms:.2f} ms, {result.per_second:,.0f}/s"
            )
    committed = await systems.kraft.high_watermark() - high_watermark_before
    acknowledged = sum(result.all_operations for result in measured[OURS].rounds)
    if operation == "commit" and committed < acknowledged:
        raise BenchmarkError(f"{acknowledged} records were acknowledged, but only {committed} offsets are committed")
    return measured


async def _load_of(value_bytes: int, systems: Systems, system: str, in_flight: int) -> tuple[Load, list[int]]:
    """How to load the leader of that system now, and its processes."""
    common = ("--in-flight", str(in_flight), "--value-bytes", str(value_bytes))
    if system == OURS:
        endpoint = systems.kraft.endpoint(await systems.kraft.leader())
        where: tuple[str, ...] = ("kraft", endpoint.host, str(endpoint.port), *common)
        names = {"commit": "produce", "read": "read", "floor": "floor"}
        pids = list(systems.kraft.pids.values())
    else:
        assert systems.etcd is not None
        # The faster of grpcio's modes: blocking calls for one in flight, asyncio for many.
        mode = "threads" if in_flight == 1 else "asyncio"
        where = ("etcd", systems.etcd.endpoint(await systems.etcd.leader()), "--mode", mode, *common)
        names = {"commit": "put", "read": "read", "floor": "floor"}
        pids = list(systems.etcd.pids.values())

    async def load(operation: str, seconds: float) -> LoadResult:
        return await run_load(*where, "--operation", names[operation], seconds=seconds)

    return load, pids


COLUMNS = (
    *("system", "p50 ms", "p90 ms", "p99 ms", "max ms", "per second"),
    *("floor p50 ms", "client CPU µs/op", "servers' CPU µs/op"),
)


def rows_of(measured: dict[str, Measured]) -> tuple[tuple[str, ...], ...]:
    """One row a system, and the ratio (ours to etcd's) or, where etcd was not measured, why not."""
    rows = [_row(system, numbers) for system, numbers in measured.items()]
    if ETCD not in measured:
        reason = etcd_cluster.why_unavailable() or "not running"
        return (*rows, (f"etcd: NOT MEASURED, {reason}", *["–"] * (len(COLUMNS) - 1)))
    ours, theirs = measured[OURS].median, measured[ETCD].median
    ratios = [
        *(ours.p50_ms / theirs.p50_ms, ours.p90_ms / theirs.p90_ms, ours.p99_ms / theirs.p99_ms),
        *(ours.max_ms / theirs.max_ms, ours.per_second / theirs.per_second),
        measured[OURS].floor.p50_ms / measured[ETCD].floor.p50_ms,
        ours.client_cpu_us / theirs.client_cpu_us,
        statistics.fmean(measured[OURS].server_cpu_us) / statistics.fmean(measured[ETCD].server_cpu_us),
    ]
    return (*rows, ("ratio, ours : etcd", *[f"{ratio:.2f}" for ratio in ratios]))


def _row(system: str, measured: Measured) -> tuple[str, ...]:
    median = measured.median
    return (
        f"{system}, {median.client}",
        *(f"{median.p50_ms:.3f}", f"{median.p90_ms:.3f}", f"{median.p99_ms:.3f}", f"{median.max_ms:.1f}"),
        f"{median.per_second:,.0f}",
        f"{measured.floor.p50_ms:.3f}",
        f"{median.client_cpu_us:.0f}",
        f"{statistics.fmean(measured.server_cpu_us):.0f}",
    )


def data_of(measured: dict[str, Measured]) -> dict[str, object]:
    return {system: attrs.asdict(numbers) for system, numbers in measured.items()}
