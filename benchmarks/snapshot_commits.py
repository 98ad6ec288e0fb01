"""Commit latency while a large snapshot is written, compared with an idle quorum."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import attrs
import trio

from benchmarks import kraft_client
from benchmarks.context import Context
from benchmarks.measurement import percentile
from benchmarks.processes import peak_resident_mib
from benchmarks.report import Aim, Section
from benchmarks.snapshot_fetch import OVERRIDES, large_states
from kraft_trio.client.admin import AdminClient
from kraft_trio.protocol.types import Endpoint

AIM_TIMES = 2.0
VALUE = b"x" * 1024
QUIET_SECONDS = 5.0
SETTLE_SECONDS = 1.0


@attrs.frozen
class Phase:
    """The commits of one phase, one in flight."""

    seconds: float
    commits: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, latencies_ms: Sequence[float], seconds: float) -> Phase:
        ordered = sorted(latencies_ms)
        return cls(seconds, len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1])


@attrs.frozen
class Round:
    """The three phases, one after the other."""

    quiet: Phase
    leader_saves: Phase
    all_save: Phase
    leader_peak_mib: float


async def measure(context: Context) -> Section:
    total_bytes, rounds = context.pick(1024, 256) << 20, context.pick(5, 3)
    measured: list[Round] = []
    with context.fresh_directory("snapshot-commits") as directory:
        overrides = {**context.overrides, **OVERRIDES, "metadata.max.retention.bytes": "0"}
        async with large_states(total_bytes, directory, overrides, voters=3) as cluster:
            leader = await cluster.leader()
            everyone = [cluster.endpoint(node) for node in cluster.node_ids]
            endpoint = cluster.endpoint(leader)
            await _phase(endpoint, partial(trio.sleep, SETTLE_SECONDS))
            for number in range(rounds):
                quiet = await _phase(endpoint, partial(trio.sleep, QUIET_SECONDS))
                leader_saves = await _phase(endpoint, partial(_take, [endpoint]))
                await trio.sleep(SETTLE_SECONDS)
                all_save = await _phase(endpoint, partial(_take, everyone))
                await trio.sleep(SETTLE_SECONDS)
                peak_mib = peak_resident_mib(cluster.pids[leader])
                measured.append(Round(quiet, leader_saves, all_save, peak_mib))
                context.say(
                    f"snapshot-commits round {number + 1}: p99 quiet {quiet.p99_ms:.2f} ms, while the leader saves "
                    f"{leader_saves.p99_ms:.2f} ms ({leader_saves.seconds:.1f} s), all {all_save.p99_ms:.2f} ms"
                )
    return section_of(measured, total_bytes)


async def _take(endpoints: list[Endpoint]) -> None:
    """A snapshot of each of these nodes, at the same time."""
    async with trio.open_nursery() as nursery:
        for endpoint in endpoints:
            nursery.start_soon(AdminClient([endpoint]).take_snapshot, endpoint)


async def _phase(endpoint: Endpoint, while_doing: Callable[[], Awaitable[None]]) -> Phase:
    """Commit one record after the other for as long as something is done."""
    latencies_ms: list[float] = []
    request = kraft_client.produce_request(VALUE)

    async def commit_all_the_time() -> None:
        connection = await kraft_client.connect(endpoint)
        while True:
            began = time.perf_counter()
            await kraft_client.commit(connection, request)
            latencies_ms.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit_all_the_time)
        await while_doing()
        nursery.cancel_scope.cancel()
    return Phase.of(latencies_ms, time.perf_counter() - began)


def section_of(measured: list[Round], total_bytes: int) -> Section:
    """Ratios are medians over rounds: each round's phases are held against its own quiet one."""
    rows = []
    ratios = {}
    for name, phases in (
        ("nothing else", [one.quiet for one in measured]),
        ("the leader saves", [one.leader_saves for one in measured]),
        ("all three save", [one.all_save for one in measured]),
    ):
        ratios[name] = statistics.median(
            phase.p99_ms / one.quiet.p99_ms for phase, one in zip(phases, measured, strict=True)
        )
        rows.append(
            (
                name,
                f"{statistics.median(phase.seconds for phase in phases):.1f}",
                f"{statistics.median(phase.p50_ms for phase in phases):.2f}",
                f"{statistics.median(phase.p99_ms for phase in phases):.2f}",
                f"{max(phase.max_ms for phase in phases):.1f}",
                f"{ratios[name]:.2f} ×",
            )
        )
    ratio = ratios["the leader saves"]
    return Section(
        name="snapshot-commits",
        title=f"Commits while a snapshot of {total_bytes / 2**20:.0f} MiB is written",
        method=(
            "Three voters; one record of 1 KiB in flight, sent to the leader. Its latency while nothing else is done, "
            "while the leader writes a snapshot, and while all three do so at the same time, in turn."
        ),
        columns=("meanwhile", "s", "p50 ms", "p99 ms", "max ms", "p99 of quiet"),
        rows=tuple(rows),
        aims=(Aim(f"p99 at most {AIM_TIMES:g} × quiet while the leader saves", f"{ratio:.2f} ×", ratio <= AIM_TIMES),),
        notes=(f"The leader's peak memory: {max(one.leader_peak_mib for one in measured):.0f} MiB.",),
        data={"rounds": [attrs.asdict(one) for one in measured]},
    )
