"""Loads at a fixed rate and in a node's process: the open loop, and the tables of what they measure."""

from __future__ import annotations

import itertools
import sys
import time

import pytest
import trio

from benchmarks import append, builds, open_loop, tls
from benchmarks.append import FOLLOWER, LEADER, WIRE
from benchmarks.loads import embedded, precise_timer
from benchmarks.loads.precise_timer import PreciseTimer
from benchmarks.measurement import LoadResult, Stopwatch
from benchmarks.open_loop import KAFKA
from benchmarks.side_by_side import OURS


class Watch(Stopwatch):
    """Never ends by itself, and shows when operations were due."""

    def __init__(self) -> None:
        super().__init__("client", 0.0, 0.0)
        self.end = float("inf")
        self.began: list[float] = []

    def record(self, began: float, ended: float) -> None:
        super().record(began, ended)
        self.began.append(began)


def test_an_open_loop_does_not_wait_for_the_operations_before() -> None:
    watch, second = Watch(), trio.Event()
    numbers = itertools.count(1)

    async def operation() -> None:
        if next(numbers) == 1:
            await second.wait()
        else:
            second.set()
            watch.end = time.perf_counter()

    assert trio.run(embedded.open_loop, itertools.repeat(operation), 1000.0, watch).operations >= 2


def test_a_latency_counts_from_the_time_its_operation_was_due() -> None:
    watch = Watch()

    async def operation() -> None:
        # The loop is late for the second one.
        if not watch.began:
            while time.perf_counter() < watch.measure_from + 0.005:
                pass
        else:
            watch.end = time.perf_counter()

    trio.run(embedded.open_loop, itertools.repeat(operation), 1000.0, watch)
    due = sorted(watch.began)
    assert due[1] - due[0] == pytest.approx(0.001)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_precise_timer_does_not_end_early(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    if platform == "linux" and sys.platform != "linux":
        pytest.skip("no timerfd")
    monkeypatch.setattr(precise_timer.sys, "platform", platform)
    late = []

    async def sleep_twice() -> None:
        with PreciseTimer() as timer:
            with trio.move_on_after(0):
                await timer.sleep_until(time.perf_counter() + 0.0002)
            for seconds in (0.0003, 0.0021):
                due = time.perf_counter() + seconds
                await timer.sleep_until(due)
                late.append(time.perf_counter() - due)

    trio.run(sleep_twice)
    assert len(late) == 2
    assert min(late) >= 0


def load(p50_ms: float, operations: int = 1000) -> LoadResult:
    return LoadResult("c", operations, 1.0, p50_ms, 1.5 * p50_ms, 2 * p50_ms, 3 * p50_ms, 4 * p50_ms, 50.0, 1100)


@pytest.mark.parametrize(("ours_ms", "cores", "met"), [(1.0, 0.5, True), (3.0, 0.5, False), (1.0, 2.0, False)])
def test_ahead_of_kafka_means_in_latency_and_processors(ours_ms: float, cores: float, met: bool) -> None:
    runs = {200: {OURS: [open_loop.Run(load(ours_ms), cores)], KAFKA: [open_loop.Run(load(2.0), 1.0)]}}
    section = open_loop.section_of(runs, "How.")
    assert [aim.met for aim in section.aims] == [met]
    ratio = dict(zip(section.columns, section.rows[-1], strict=True))
    assert (ratio["p50 ms"], ratio["cores"]) == (f"{ours_ms / 2:.2f}", f"{cores:.2f}")


def test_a_missing_kafka_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_loop.kafka_raft, "why_unavailable", lambda: "no JDK on PATH")
    section = open_loop.section_of({200: {OURS: [open_loop.Run(load(1.0), 1.0)]}}, "How.")
    assert section.rows[-1] == ("Kafka's raft: NOT MEASURED, no JDK on PATH", *["–"] * (len(section.columns) - 1))
    assert not section.aims


@pytest.mark.parametrize(
    ("leader_ms", "follower_ms", "met"),
    [(1.0, 1.5, [True, True]), (1.1, 1.5, [False, True]), (1.0, 1.6, [True, False])],
)
def test_appends_are_held_against_the_wire_client_of_one_task(
    leader_ms: float, follower_ms: float, met: list[bool]
) -> None:
    one = {WIRE: 1.0, LEADER: leader_ms, FOLLOWER: follower_ms}
    runs = {
        1: {way: [append.Run(load(p50_ms), 100.0)] for way, p50_ms in one.items()},
        64: {way: [append.Run(load(10 * place), 100.0)] for place, way in enumerate(one, 1)},
    }
    section = append.section_of(runs, "How.")
    assert [aim.met for aim in section.aims] == met
    assert [row[-1] for row in section.rows[3:]] == ["1.00", "2.00", "3.00"]


def test_builds_are_compared_with_the_first() -> None:
    runs = {
        in_flight: {"3.11": [builds.Run(load(2.0), 1000.0)], "3.13": [builds.Run(load(1.0), 900.0)]}
        for in_flight in (1, 64)
    }
    section = builds.section_of(runs, "How.")
    assert [row[-2:] for row in section.rows] == [("1.00 ×", "1.00 ×"), ("0.50 ×", "0.90 ×")] * 2


@pytest.mark.parametrize(("tls_ms", "met"), [(2.4, True), (2.6, False)])
def test_the_aim_of_tls_is_for_one_in_flight(tls_ms: float, met: bool) -> None:
    def run(p50_ms: float, cpu_us: float) -> builds.Run:
        return builds.Run(LoadResult("c", 10, 1.0, p50_ms, p50_ms, p50_ms, p50_ms, p50_ms, 50.0, 10), cpu_us)

    runs = {
        in_flight: {tls.PLAINTEXT: [run(2.0, 100.0)], tls.MUTUAL_TLS: [run(ms, 150.0)]}
        for in_flight, ms in ((1, tls_ms), (64, 9.0))
    }
    section = tls.section_of(runs, "method")
    [aim] = section.aims
    assert aim.met is met
    assert section.rows[2] == ("ratio, 1", f"{tls_ms / 2:.2f}", f"{tls_ms / 2:.2f}", "1.00", "1.00", "1.50")
