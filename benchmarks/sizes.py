"""What a larger quorum, many observers, large records and idle connections cost a commit."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import attrs
import trio

from benchmarks.children import poll_until, start_child, stopping
from benchmarks.context import Context, run_load
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult, median_result
from benchmarks.processes import cpu_seconds, memory_of
from benchmarks.report import Section
from benchmarks.side_by_side import COLUMNS as COMPARED
from benchmarks.side_by_side import Systems, compare, data_of, rows_of
from harness.node import stop_all

MIB: Final = 1 << 20
LARGE: Final = {"message.max.bytes": str(2 * MIB)}
OPEN_FILES_BESIDES: Final = 500
FIRST_OBSERVER: Final = 100
COLUMNS: Final = ("quorum", "p50 ms", "p90 ms", "p99 ms", "per second", "CPU of all nodes µs/commit", "leader MiB")


@attrs.frozen
class Run:
    """One round of commits, one in flight."""

    result: LoadResult
    cpu_us: float
    """Processor time of all nodes for one commit."""
    leader_mib: float
    """Anonymous memory of the leader after the round."""


async def measure(context: Context) -> list[Section]:
    return [await _voters(context), await _observers(context), await _connections(context), await _large(context)]


async def _commits(cluster: KraftCluster, others: list[int], seconds: float) -> Run:
    """Load the leader; `others` are processes other than the voters whose time counts."""
    leader = await cluster.leader()
    endpoint, pids = cluster.endpoint(leader), [*cluster.pids.values(), *others]
    before = cpu_seconds(pids)
    result = await run_load("kraft", endpoint.host, str(endpoint.port), seconds=seconds)
    cpu_us = (cpu_seconds(pids) - before) / result.all_operations * 1e6
    return Run(result, cpu_us, memory_of(cluster.pids[leader]).anonymous_mib)


async def _voters(context: Context) -> Section:
    rounds, seconds = context.pick(3, 1), context.pick(5, 2)
    runs: dict[str, list[Run]] = {}
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(context.fresh_directory("voters"))
        clusters = {}
        for voters in (3, 5, 7):
            started = KraftCluster.started(directory / f"{voters}", context.overrides, voters)
            clusters[f"{voters} voters"] = await stack.enter_async_context(started)
        for number in range(rounds):
            for name, cluster in clusters.items():
                runs.setdefault(name, []).append(await _commits(cluster, [], seconds))
            context.say(f"voters, round {number + 1} of {rounds}")
    method = f"The quorums run all the time, and are loaded in turn; medians over {rounds} round(s) of {seconds} s."
    return _section("voters", "Commits by the number of voters, one 1 KiB record in flight", method, runs)


async def _observers(context: Context) -> Section:
    number, seconds = context.pick(50, 5), context.pick(8, 2)
    with context.fresh_directory("observers") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            runs = {"3 voters": [await _commits(cluster, [], seconds)]}
            observers = [await cluster.make_observer(FIRST_OBSERVER + at, directory / f"o{at}") for at in range(number)]
            try:
                for observer in observers:
                    cluster.start_process(observer)
                for observer in observers:
                    await trio.to_thread.run_sync(observer.wait_until_listening)
                context.say(f"{number} observers run")
                pids = [observer.pid for observer in observers]
                runs[f"3 voters, {number} observers"] = [await _commits(cluster, pids, seconds)]
            finally:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(stop_all, observers, 60.0)
            runs["3 voters again"] = [await _commits(cluster, [], seconds)]
    method = f"The same quorum without observers, with them, and without them again, {seconds} s each."
    return _section("observers", "Commits with observers, one 1 KiB record in flight", method, runs)


async def _connections(context: Context) -> Section:
    number, seconds = context.pick(10_000, 1000), context.pick(8, 2)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(number, limit - OPEN_FILES_BESIDES)
    overrides = {**context.overrides, "max.connections": str(number + OPEN_FILES_BESIDES)}
    with context.fresh_directory("connections") as directory:
        async with KraftCluster.started(directory, overrides) as cluster:
            runs = {"no idle connection": [await _commits(cluster, [], seconds)]}
            async with _idle_connections(cluster, number):
                context.say(f"{number} connections are idle")
                name = f"{number:,} idle connections"
                runs[name] = [await _commits(cluster, [], seconds)]
            runs["closed again"] = [await _commits(cluster, [], seconds)]
    kib = (runs[name][0].leader_mib - runs["no idle connection"][0].leader_mib) * 1024 / number
    method = f"Idle connections to the leader of three, in addition to the one that commits; {seconds} s each."
    section = _section("connections", "Commits with idle connections, one 1 KiB record in flight", method, runs)
    return attrs.evolve(section, notes=(f"An idle connection takes {kib:.1f} KiB of the leader's memory.",))


@asynccontextmanager
async def _idle_connections(cluster: KraftCluster, number: int) -> AsyncIterator[None]:
    endpoint = cluster.endpoint(await cluster.leader())
    command = [sys.executable, "-m", "benchmarks.loads.idle_connections", endpoint.host, str(endpoint.port)]
    log = cluster.quorum.nodes[cluster.node_ids[0]].directory.with_name("idle-connections.log")
    child = await start_child("idle connections", [*command, "--number", str(number)], log, stdin=subprocess.PIPE)

    async def opened() -> bool | None:
        child.check_running()
        return "opened" in child.log_tail() or None

    async with stopping({0: child}):
        await poll_until("idle connections", 120, opened)
        yield


async def _large(context: Context) -> Section:
    rounds, seconds = context.pick(3, 1), context.pick(5, 2)
    with_limit = attrs.evolve(context, overrides={**context.overrides, **LARGE})
    async with Systems.started(with_limit, "large") as systems:
        measured = await compare(context, systems, in_flight=1, rounds=rounds, seconds=seconds, value_bytes=MIB)
    return Section(
        name="large",
        title="Commit latency, one 1 MiB record in flight",
        method=f"As the latency, with larger batches allowed; {rounds} round(s) of {seconds} s.",
        columns=COMPARED,
        rows=rows_of(measured),
        data=data_of(measured),
    )


def _section(name: str, title: str, method: str, runs: dict[str, list[Run]]) -> Section:
    rows = []
    for what, rounds in runs.items():
        median = median_result([run.result for run in rounds])
        cpu_us = statistics.median(run.cpu_us for run in rounds)
        leader_mib = statistics.median(run.leader_mib for run in rounds)
        times = (f"{ms:.3f}" for ms in (median.p50_ms, median.p90_ms, median.p99_ms))
        rows.append((what, *times, f"{median.per_second:,.0f}", f"{cpu_us:.0f}", f"{leader_mib:.1f}"))
    data = {what: [attrs.asdict(run) for run in rounds] for what, rounds in runs.items()}
    return Section(name, title, method, COLUMNS, tuple(rows), data=data)
