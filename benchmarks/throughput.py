"""Records per second: 64 and 256 in flight, compared with etcd, and with the batching of an ordinary client."""

from __future__ import annotations

import shutil
import statistics
import sys

import attrs

from benchmarks.children import BenchmarkError, run_to_end
from benchmarks.context import Context
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import ProducerResult
from benchmarks.processes import cpu_seconds
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import AIM_RATE, COLUMNS, ETCD, OURS, Systems, compare, data_of, rows_of

IN_FLIGHT = (64, 256)
LINGER_MS = 5
AIMS_PER_SECOND = {False: 150_000, True: 120_000}
"""By whether the producer is idempotent."""
AIMED_AT = "producer"
LOADS = {"producer": "librdkafka through confluent-kafka", "kcat": "kcat, which is librdkafka without Python"}


async def measure(context: Context) -> list[Section]:
    async with Systems.started(context, "throughput") as systems:
        sections = [await _in_flight(context, systems, number) for number in IN_FLIGHT]
    # A cluster of its own: etcd would only idle meanwhile.
    with context.fresh_directory("batching") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            return [*sections, await _batching(context, cluster)]


async def _in_flight(context: Context, systems: Systems, in_flight: int) -> Section:
    rounds, seconds = context.pick(5, 2), context.pick(10, 3)
    measured = await compare(context, systems, in_flight=in_flight, rounds=rounds, seconds=seconds)
    aims: tuple[Aim, ...] = ()
    if ETCD in measured:
        ratio = measured[OURS].median.per_second / measured[ETCD].median.per_second
        aims = (Aim(f"at least {AIM_RATE} × etcd's rate", f"{ratio:.2f} ×", ratio >= AIM_RATE),)
    return Section(
        name=f"throughput-{in_flight}",
        title=f"Throughput, {in_flight} single 1 KiB records in flight",
        method=(
            f"{in_flight} requests of one 1 KiB record each in flight at the leader (ours: a connection each; etcd: "
            f"one HTTP/2 channel); otherwise as the latency. Medians over {rounds} rounds of {seconds} s. The load "
            "program shares the processors with the servers: see its CPU time."
        ),
        columns=COLUMNS,
        rows=rows_of(measured),
        aims=aims,
        data=data_of(measured),
    )


@attrs.frozen
class _Batched:
    result: ProducerResult
    servers_cpu_us: float
    """Processor time of the three servers for one record."""


async def _batching(context: Context, cluster: KraftCluster) -> Section:
    rounds, seconds = context.pick(3, 1), context.pick(15, 10)
    loads = [load for load in LOADS if load != "kcat" or shutil.which("kcat")]
    runs: dict[tuple[str, bool], list[_Batched]] = {
        (load, idempotence): [] for load in loads for idempotence in AIMS_PER_SECOND
    }
    for number in range(rounds):
        for (load, idempotence), into in runs.items():
            into.append(await _produce(cluster, load, idempotence, seconds))
            context.say(
                f"client batching, round {number + 1} of {rounds}: {into[-1].result.client}: "
                f"{into[-1].result.per_second:,.0f} records/s"
            )
    rows, aims = [], []
    for (load, idempotence), batched in runs.items():
        client = batched[0].result.client
        per_second = statistics.median(run.result.per_second for run in batched)
        rows.append(
            (
                f"{OURS}, {client}",
                f"{per_second:,.0f}",
                f"{per_second / 1024:.0f}",
                f"{sum(run.result.failed for run in batched)}",
                f"{statistics.median(run.result.client_cpu_us for run in batched):.1f}",
                f"{statistics.median(run.servers_cpu_us for run in batched):.1f}",
            )
        )
        if load == AIMED_AT:
            aims.append(
                Aim(
                    f"at least {AIMS_PER_SECOND[idempotence]:,} records/s of 1 KiB ({client})",
                    f"{per_second:,.0f}",
                    per_second >= AIMS_PER_SECOND[idempotence],
                )
            )
    return Section(
        name="batching",
        title="Throughput with ordinary client batching",
        method=(
            f"{'; '.join(LOADS[load] for load in loads)}; one process, 1 KiB records, acks=all, linger.ms={LINGER_MS}, "
            f"every other setting its default; medians over {rounds} round(s) of {seconds} s, acknowledgement of the "
            "last record included. The high watermark is checked to have grown by what was acknowledged."
        ),
        columns=("system, client", "records/s", "MiB/s", "failed", "client CPU µs/record", "servers' CPU µs/record"),
        rows=tuple(rows),
        aims=tuple(aims),
        data={batched[0].result.client: [attrs.asdict(run) for run in batched] for batched in runs.values()},
    )


async def _produce(cluster: KraftCluster, load: str, idempotence: bool, seconds: float) -> _Batched:
    before = await cluster.high_watermark()
    pids = list(cluster.pids.values())
    cpu_before = cpu_seconds(pids)
    command = [
        *(sys.executable, "-m", f"benchmarks.loads.{load}", cluster.bootstrap_servers, "--seconds", str(seconds)),
        *("--linger-ms", str(LINGER_MS), "--idempotence" if idempotence else "--no-idempotence"),
    ]
    result = ProducerResult.from_json(await run_to_end(command, seconds=seconds + 180))
    cpu_us = (cpu_seconds(pids) - cpu_before) / max(result.records, 1) * 1e6
    await cluster.all_caught_up()
    committed = await cluster.high_watermark() - before
    if committed < result.records:
        raise BenchmarkError(f"{result.records} records were acknowledged, but only {committed} offsets are committed")
    return _Batched(result, cpu_us)
