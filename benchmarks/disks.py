"""Commits on disks whose fsync takes a chosen time, beside etcd, and beside Kafka's raft."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import attrs
import trio

from benchmarks import etcd_cluster, kafka_raft, slow_disks
from benchmarks.context import Context
from benchmarks.disks_picture import Panel, Point, draw
from benchmarks.embedded import replaced_node
from benchmarks.etcd_cluster import EtcdCluster
from benchmarks.kafka_raft import KafkaRaft
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.machine import FsyncTimes, fsync_times
from benchmarks.measurement import LoadResult, median_result
from benchmarks.open_loop import JVM_WARM_UP_SECONDS, KAFKA, Run, load_kafka, load_ours, warm_up
from benchmarks.report import Aim, Section
from benchmarks.side_by_side import AIM_RATE, AIM_TIME, ETCD, OURS, Systems, compare
from benchmarks.slow_disks import SlowDisks

PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "commit-over-fsync.svg"
IN_FLIGHT: Final = (1, 64)
RATE: Final = 200
NODES: Final = (1, 2, 3)
AIMED_UP_TO_MS: Final = 5.0
METHOD: Final = (
    "Each node has a disk of its own, an ext4 whose flushes take a chosen time, the same for all systems. The chosen "
    "time changes while the systems run. The fsync is what a person measures on such a disk: append 1 KiB to a file, "
    "then fdatasync, which flushes twice; p50 and p99 of {fsync_seconds} s, before the rounds. "
)
COMMITS: Final = METHOD + (
    "Single records of 1 KiB as in the latency and the throughput; both clusters run all the time, and are loaded in "
    "turn; medians over {rounds} round(s) of {seconds} s."
)
OPEN_LOOP: Final = METHOD + (
    "Single records of 1 KiB at {rate} a second in the leader's process, as in the open loop, after {warm_up} s of "
    "load for Java; medians over {rounds} round(s) of {seconds} s."
)
COLUMNS: Final = (
    *("fsync, in flight, system", "fsync p50 ms", "fsync p99 ms"),
    *("p50 ms", "p99 ms", "per second", "servers' CPU µs/op"),
)
AT_A_RATE: Final = ("fsync, system", "fsync p50 ms", "fsync p99 ms", "p50 ms", "p99 ms", "per second", "cores")


@attrs.frozen
class Flush:
    """How long a flush of the disks takes."""

    name: str
    """About what the fsync takes then."""
    fsync_ms: float
    microseconds: int
    slow_per_mille: int = 0
    slow_us: int = 0


FLUSHES: Final = (
    Flush("0.1 ms", 0.1, 0),
    Flush("0.5 ms", 0.5, 200),
    Flush("1 ms", 1.0, 450),
    Flush("2 ms", 2.0, 950),
    Flush("5 ms", 5.0, 2450),
    Flush("20 ms", 20.0, 9950),
    Flush("0.5 ms, 1 % of the flushes 100 ms", 0.5, 200, slow_per_mille=10, slow_us=100_000),
)
QUICK: Final = ("0.1 ms", "1 ms", "5 ms")


@attrs.frozen
class Numbers:
    """What one system did at one time of the fsync: medians over the rounds."""

    result: LoadResult
    cpu: float
    """Processor time of the servers: in microseconds for an operation, or in processors at a fixed rate."""


@attrs.frozen
class Measured:
    """Systems beside each other at one time of the fsync, and under one load."""

    flush: Flush
    fsync: FsyncTimes
    in_flight: int | None
    """None: at a fixed rate."""
    by_system: dict[str, Numbers]

    def ratios(self, other: str) -> tuple[float, float, float, float]:
        """Ours to the other's: p50, p99, operations per second, processor time."""
        ours, theirs = self.by_system[OURS], self.by_system[other]
        return (
            ours.result.p50_ms / theirs.result.p50_ms,
            ours.result.p99_ms / theirs.result.p99_ms,
            ours.result.per_second / theirs.result.per_second,
            ours.cpu / theirs.cpu,
        )

    @property
    def label(self) -> str:
        load = "" if self.in_flight is None else f", {self.in_flight} in flight"
        return f"fsync {self.flush.name}{load}"


async def measure(context: Context) -> list[Section]:
    if (reason := slow_disks.why_unavailable()) is not None:
        return [Section.not_measured("disks", reason)]
    flushes = [flush for flush in FLUSHES if not context.quick or flush.name in QUICK]
    rounds, seconds, fsync_seconds = context.pick(2, 1), context.pick(5, 3), context.pick(2, 1)
    warm_up_seconds = JVM_WARM_UP_SECONDS[context.quick]
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(context.fresh_directory("disks"))
        context.say(f"mounting {3 * len(NODES)} disks")
        disks = await stack.enter_async_context(SlowDisks.started(directory / "disks", 3 * len(NODES)))
        work = _Work(context, directory, disks, flushes, rounds, seconds, fsync_seconds)
        commits = await work.beside_etcd()
        at_a_rate = await work.beside_kafka(warm_up_seconds)
    PICTURE.write_text(draw([panel_of("one record in flight", commits), panel_of(f"{RATE} records/s", at_a_rate)]))
    common = {"rounds": rounds, "seconds": seconds, "fsync_seconds": fsync_seconds}
    return [
        commits_section(commits, COMMITS.format(**common)),
        rate_section(at_a_rate, OPEN_LOOP.format(**common, rate=RATE, warm_up=warm_up_seconds)),
    ]


@attrs.frozen
class _Work:
    """The disks, and how to measure on them."""

    context: Context
    directory: Path
    disks: SlowDisks
    flushes: list[Flush]
    rounds: int
    seconds: float
    fsync_seconds: float

    def _data(self, system: int, name: str) -> dict[int, Path]:
        """Return where the nodes of a system have their data: one of the disks each."""
        return {node: self.disks.paths[system * len(NODES) + node - 1] / name for node in NODES}

    async def _set(self, flush: Flush) -> FsyncTimes:
        await self.disks.set_delay(flush.microseconds, flush.slow_per_mille, flush.slow_us)
        times = await trio.to_thread.run_sync(fsync_times, self.disks.paths[0], self.fsync_seconds)
        self.context.say(f"disks: {times}")
        return times

    async def beside_etcd(self) -> list[Measured]:
        context, found = self.context, []
        async with AsyncExitStack() as stack:
            context.say("starting three kraft nodes")
            started = KraftCluster.started(self.directory / "kraft", context.overrides, data=self._data(0, "kraft"))
            kraft, etcd = await stack.enter_async_context(started), None
            if etcd_cluster.why_unavailable() is None:
                context.say("starting three etcd members")
                members = EtcdCluster.started(self.directory / "etcd", data=self._data(1, "etcd"))
                etcd = await stack.enter_async_context(members)
            for flush in self.flushes:
                fsync = await self._set(flush)
                for in_flight in IN_FLIGHT:
                    systems = Systems(kraft, etcd)
                    both = await compare(context, systems, in_flight, self.rounds, self.seconds, floors=False)
                    numbers = {
                        name: Numbers(one.median, statistics.fmean(one.server_cpu_us)) for name, one in both.items()
                    }
                    found.append(Measured(flush, fsync, in_flight, numbers))
            await self.disks.set_delay(0)
        return found

    async def beside_kafka(self, warm_up_seconds: float) -> list[Measured]:
        context, found = self.context, []
        async with AsyncExitStack() as stack:
            data = self._data(0, "open-loop")
            started = KraftCluster.started(self.directory / "open-loop", context.overrides, data=data)
            ours, kafka = await stack.enter_async_context(started), None
            if kafka_raft.why_unavailable() is None:
                context.say(f"starting three TestRaftServers, and loading them for {warm_up_seconds:.0f} s")
                servers = KafkaRaft.started(self.directory / "kafka", data=self._data(2, "kafka"))
                kafka = await stack.enter_async_context(servers)
                await warm_up(kafka, (RATE,), warm_up_seconds)
            node = await stack.enter_async_context(replaced_node(ours))
            loads: dict[str, Callable[[], Awaitable[Run]]] = {OURS: lambda: load_ours(ours, node, RATE, self.seconds)}
            if (running := kafka) is not None:
                loads[KAFKA] = lambda: load_kafka(running, RATE, self.seconds)
            for flush in self.flushes:
                fsync = await self._set(flush)
                runs = await self._alternate(loads)
                numbers = {
                    name: Numbers(median_result([run.result for run in of]), statistics.median(run.cores for run in of))
                    for name, of in runs.items()
                }
                found.append(Measured(flush, fsync, None, numbers))
            await self.disks.set_delay(0)
        return found

    async def _alternate(self, loads: dict[str, Callable[[], Awaitable[Run]]]) -> dict[str, list[Run]]:
        runs: dict[str, list[Run]] = {name: [] for name in loads}
        for number in range(self.rounds):
            order = list(loads)
            for name in order if number % 2 == 0 else reversed(order):
                run = await loads[name]()
                runs[name].append(run)
                self.context.say(
                    f"{RATE} records/s, round {number + 1} of {self.rounds}: {name} p50 {run.result.p50_ms:.2f} ms, "
                    f"p99 {run.result.p99_ms:.2f} ms"
                )
        return runs


def commits_section(measured: list[Measured], method: str) -> Section:
    """The table beside etcd, and the aims."""
    aims: list[Aim] = []
    aimed = [one for one in measured if one.flush.fsync_ms <= AIMED_UP_TO_MS and not one.flush.slow_per_mille]
    one_in_flight, many = ([one for one in aimed if one.in_flight == number] for number in IN_FLIGHT)
    where = f"at each fsync up to {AIMED_UP_TO_MS:.0f} ms"
    if aimed and all(ETCD in one.by_system for one in aimed):
        p50s, p99s = ([one.ratios(ETCD)[column] for one in one_in_flight] for column in (0, 1))
        rates = [one.ratios(ETCD)[2] for one in many]
        aims = [
            _aim(f"p50 at most {AIM_TIME} × etcd's {where}, one in flight", p50s, max(p50s) <= AIM_TIME),
            _aim(f"p99 at most {AIM_TIME} × etcd's {where}, one in flight", p99s, max(p99s) <= AIM_TIME),
            _aim(
                f"at least {AIM_RATE} × etcd's rate {where}, {many[0].in_flight} in flight",
                rates,
                min(rates) >= AIM_RATE,
            ),
        ]
    missing = etcd_cluster.why_unavailable() or "not running"
    return Section(
        name="disks",
        title="Commits by the time of an fsync, beside etcd",
        method=method,
        columns=COLUMNS,
        rows=tuple(_rows(measured, ETCD, missing, lambda cpu: f"{cpu:.0f}")),
        aims=tuple(aims),
        data={"measured": [attrs.asdict(one) for one in measured]},
        has_own_disks=True,
    )


def _aim(text: str, ratios: Iterable[float], met: bool) -> Aim:
    return Aim(text, ", ".join(f"{ratio:.2f}" for ratio in ratios) + " ×", met)


def rate_section(measured: list[Measured], method: str) -> Section:
    """The table beside Kafka's raft."""
    missing = kafka_raft.why_unavailable() or "not running"
    return Section(
        name="disks-open-loop",
        title=f"{RATE} appends a second by the time of an fsync, beside Kafka's raft",
        method=method,
        columns=AT_A_RATE,
        rows=tuple(_rows(measured, KAFKA, missing, lambda cpu: f"{cpu:.2f}")),
        data={"measured": [attrs.asdict(one) for one in measured]},
        has_own_disks=True,
    )


def _rows(
    measured: list[Measured], other: str, missing: str, shown: Callable[[float], str]
) -> Iterable[tuple[str, ...]]:
    for one in measured:
        fsync = (f"{one.fsync.p50_ms:.2f}", f"{one.fsync.p99_ms:.2f}")
        for system, numbers in one.by_system.items():
            result = numbers.result
            times = (f"{result.p50_ms:.2f}", f"{result.p99_ms:.2f}", f"{result.per_second:,.0f}")
            yield (f"{one.label}: {system}", *fsync, *times, shown(numbers.cpu))
        if other in one.by_system:
            yield (f"{one.label}: ratio, ours : {other}", *fsync, *(f"{ratio:.2f}" for ratio in one.ratios(other)))
        else:
            yield (f"{one.label}: {other} NOT MEASURED, {missing}", *fsync, *["–"] * 4)


def panel_of(title: str, measured: list[Measured]) -> Panel:
    """The curves of each system, without disks of which some flushes are slow, and with least in flight only."""
    curves: dict[str, list[Point]] = {}
    for one in measured:
        if one.in_flight in (None, IN_FLIGHT[0]) and not one.flush.slow_per_mille:
            for system, numbers in one.by_system.items():
                point = Point(one.fsync.p50_ms, numbers.result.p50_ms, numbers.result.p99_ms)
                curves.setdefault(system, []).append(point)
    return Panel(title, curves)
