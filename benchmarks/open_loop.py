"""Single records appended at a fixed rate in the leader's process, compared with Kafka's own raft."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import attrs

from benchmarks import kafka_raft
from benchmarks.context import Context
from benchmarks.embedded import replaced_node, run_in_node
from benchmarks.kafka_raft import KafkaRaft
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult, median_result
from benchmarks.processes import cpu_seconds
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import OURS, VALUE_BYTES

RATES: Final = (200, 1000, 5000)
KAFKA: Final = "Kafka's raft"
JVM_WARM_UP_SECONDS: Final = {False: 120.0, True: 15.0}
"""By whether the run is quick.  Java compiles what is hot for minutes."""
METHOD: Final = (
    "Single records of 1 KiB, started in the leader's process at a fixed rate, however long the others take: ours by "
    "Node.append, Kafka's by RaftClient.prepareAppend in TestRaftServer, without linger. A latency counts from the "
    "time at which its record was due to the commit. Three processes each, fsync on; both quorums run all the time "
    "and are loaded in turn; medians over {rounds} round(s) of {seconds} s. CPU is that of the three processes. "
    "Kafka's servers were loaded for {warm_up:.0f} s before, as long at each rate, for Java to compile them."
)


@attrs.frozen
class Run:
    """One round of one system at one rate."""

    result: LoadResult
    cores: float
    """Processors that the three processes used."""


Runs = dict[int, dict[str, list[Run]]]
"""The rounds by rate and system."""


async def measure(context: Context) -> Section:
    rounds, seconds = context.pick(3, 1), context.pick(8, 3)
    warm_up_seconds = JVM_WARM_UP_SECONDS[context.quick]
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(context.fresh_directory("open-loop"))
        ours = await stack.enter_async_context(KraftCluster.started(directory / "kraft", context.overrides))
        kafka = None
        if kafka_raft.why_unavailable() is None:
            context.say(f"starting three TestRaftServers, and loading them for {warm_up_seconds:.0f} s")
            kafka = await stack.enter_async_context(KafkaRaft.started(directory / "kafka"))
            await warm_up(kafka, RATES, warm_up_seconds)
        systems = (OURS, KAFKA) if kafka else (OURS,)
        runs: Runs = {rate: {system: [] for system in systems} for rate in RATES}
        node = await stack.enter_async_context(replaced_node(ours))
        for number in range(rounds):
            for rate, by_system in runs.items():
                order = list(by_system)
                for system in order if number % 2 == 0 else reversed(order):
                    if system == OURS:
                        run = await load_ours(ours, node, rate, seconds)
                    else:
                        assert kafka is not None
                        run = await load_kafka(kafka, rate, seconds)
                    by_system[system].append(run)
                    context.say(
                        f"{rate} records/s, round {number + 1} of {rounds}: {system} p50 {run.result.p50_ms:.2f} ms, "
                        f"p99 {run.result.p99_ms:.2f} ms, {run.cores:.2f} cores"
                    )
    return section_of(runs, METHOD.format(rounds=rounds, seconds=seconds, warm_up=warm_up_seconds))


async def warm_up(kafka: KafkaRaft, rates: Sequence[int], seconds: float) -> None:
    """Load the servers at each rate, the highest first, for so long together."""
    for rate in sorted(rates, reverse=True):
        await kafka.load(rate, 0, seconds / len(rates), VALUE_BYTES)


async def load_ours(cluster: KraftCluster, node: int, rate: int, seconds: float) -> Run:
    """Append at that rate in the process of that node, whose own process is stopped.  Raises BenchmarkError."""
    others = [pid for other, pid in cluster.pids.items() if other != node]
    options = ("--operation", "append", "--rate", str(rate), "--value-bytes", str(VALUE_BYTES))
    before = cpu_seconds(others)
    result = await run_in_node(cluster, node, *options, seconds=seconds)
    followers_cpu_s = (cpu_seconds(others) - before) / result.all_operations * result.operations
    return Run(result, (followers_cpu_s + result.client_cpu_us * result.operations / 1e6) / result.seconds)


async def load_kafka(kafka: KafkaRaft, rate: int, seconds: float) -> Run:
    """Append at that rate in the process of Kafka's leader.  Raises BenchmarkError."""
    before = cpu_seconds(kafka.pids)
    result = await kafka.load(rate, 1.0, seconds, VALUE_BYTES)
    cpu_s = (cpu_seconds(kafka.pids) - before) / result.all_operations * result.operations
    return Run(result, cpu_s / result.seconds)


def section_of(runs: Runs, method: str) -> Section:
    """Make the table: a row for each rate and system, and the ratios."""
    rows: list[tuple[str, ...]] = []
    aims: list[Aim] = []
    for rate, by_system in runs.items():
        medians = {system: _numbers(rounds) for system, rounds in by_system.items()}
        for system, numbers in medians.items():
            rows.append((f"{rate:,} records/s, {system}", *(f"{number:,.2f}" for number in numbers)))
        if KAFKA not in medians:
            rows.append((f"{KAFKA}: NOT MEASURED, {kafka_raft.why_unavailable()}", *["–"] * (len(COLUMNS) - 1)))
            continue
        ratios = [ours / kafkas for ours, kafkas in zip(medians[OURS], medians[KAFKA], strict=True)]
        shown = [f"{ratio:.2f}" for ratio in ratios]
        rows.append((f"{rate:,} records/s, ratio, ours : Kafka's", *shown))
        ahead = all(ratio < 1 for name, ratio in zip(COLUMNS[1:], ratios, strict=True) if name in AHEAD)
        text = ", ".join(f"{name} {ratio} ×" for name, ratio in zip(COLUMNS[1:], shown, strict=True) if name in AHEAD)
        aims.append(Aim(f"ahead of Kafka's raft at {rate:,} records/s", text, ahead))
    return Section(
        name="open-loop",
        title="Appends at a fixed rate, compared with Kafka's raft",
        method=method,
        columns=COLUMNS,
        rows=tuple(rows),
        aims=tuple(aims),
        data={
            str(rate): {system: [attrs.asdict(run) for run in rounds] for system, rounds in by_system.items()}
            for rate, by_system in runs.items()
        },
    )


COLUMNS: Final = ("rate, system", "p50 ms", "p75 ms", "p90 ms", "p99 ms", "max ms", "per second", "cores")
AHEAD: Final = ("p50 ms", "p75 ms", "p99 ms", "cores")


def _numbers(rounds: list[Run]) -> tuple[float, ...]:
    median = median_result([run.result for run in rounds])
    times = (median.p50_ms, median.p75_ms, median.p90_ms, median.p99_ms, median.max_ms)
    return (*times, median.per_second, statistics.median(run.cores for run in rounds))
