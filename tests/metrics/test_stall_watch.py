"""The watchdog of the event loop: what held it, by CPU time, and not what the machine did meanwhile."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest
import structlog
import trio
import trio.testing

from kraft_trio.metrics import stall_watch
from kraft_trio.metrics.stall_watch import STALL_MS, StallWatch

LONG_MS = STALL_MS * 2
"""Enough to count as a stall although up to 25 ms may go unnoticed."""


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """To look through all that the tests of this process keep takes as long as a stall."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def burn(ms: float) -> None:
    """Use so much CPU time of this thread."""
    until_ns = time.thread_time_ns() + int(ms * 1_000_000)
    while time.thread_time_ns() < until_ns:
        pass


async def watched_while(
    *, burns_ms: float = 0, then_burns_ms: float = 0, times: int = 1, pauses: bool = False
) -> StallWatch:
    async def guilty(ms: float) -> None:
        burn(ms)
        if pauses:
            waited = threading.Event()
            waited.wait(STALL_MS * 2 / 1000)

    watch = StallWatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(times):
            for ms in (burns_ms, then_burns_ms):
                async with trio.open_nursery() as guilty_nursery:
                    guilty_nursery.start_soon(guilty, ms)
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    return watch


def test_stall_is_counted_and_told() -> None:
    with structlog.testing.capture_logs() as logged:
        watch = trio.run(lambda: watched_while(burns_ms=LONG_MS))
    assert watch.stalls == 1
    assert watch.longest_cpu_ms >= STALL_MS
    assert [line["event"] for line in logged] == ["event loop stalled"]


def test_second_stall_names_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_watch, "TELL_EVERY_S", 0.0)
    with structlog.testing.capture_logs() as logged:
        watch = trio.run(lambda: watched_while(burns_ms=LONG_MS, times=2))
    assert watch.stalls == 2
    assert "guilty" in logged[1]["longest_step"]


def test_steps_are_timed_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_watch, "NAME_FOR_S", 0.0)
    monkeypatch.setattr(stall_watch, "TELL_EVERY_S", 0.0)
    with structlog.testing.capture_logs() as logged:
        trio.run(lambda: watched_while(burns_ms=LONG_MS, then_burns_ms=STALL_MS * 0.6, times=2))
    assert ["guilty" in line["longest_step"] for line in logged] == [False, False]


def test_short_turns_do_not_add_up_to_a_stall() -> None:
    watch = trio.run(lambda: watched_while(burns_ms=STALL_MS / 10, times=20))
    assert watch.stalls == 0


def test_slow_machine_is_no_stall() -> None:
    """The thread does not run for that time: the operator sees it by the wall clock, and no stall is counted."""

    async def main() -> tuple[int, float | None]:
        watch = await watched_while(pauses=True)
        return watch.stalls, watch.longest_wall_ms()

    stalls, longest_wall_ms = trio.run(main)
    assert stalls == 0
    assert longest_wall_ms is not None
    assert longest_wall_ms >= STALL_MS
