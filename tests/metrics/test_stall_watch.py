"""The watchdog of the event loop: what held it, by CPU time, and not what the machine did meanwhile."""

from __future__ import annotations

import threading
import time

import structlog
import trio
import trio.testing

from kraft_trio.metrics.stall_watch import STALL_MS, StallWatch


def burn(ms: float) -> None:
    """Use so much CPU time of this thread."""
    until_ns = time.thread_time_ns() + int(ms * 1_000_000)
    while time.thread_time_ns() < until_ns:
        pass


async def watched_while(*, burns_ms: float = 0, pauses: bool = False) -> StallWatch:
    async def guilty() -> None:
        burn(burns_ms)
        if pauses:
            waited = threading.Event()
            waited.wait(STALL_MS * 2 / 1000)

    watch = StallWatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as guilty_nursery:
            guilty_nursery.start_soon(guilty)
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    return watch


def test_stall_is_counted_and_its_task_named() -> None:
    with structlog.testing.capture_logs() as logged:
        watch = trio.run(lambda: watched_while(burns_ms=STALL_MS * 1.5))
    assert watch.stalls == 1
    assert watch.longest_cpu_ms >= STALL_MS * 1.5
    assert [line["event"] for line in logged] == ["event loop stalled"]
    assert "guilty" in logged[0]["longest_step"]


def test_slow_machine_is_no_stall() -> None:
    """The thread does not run for that time: the operator sees it by the wall clock, and no stall is counted."""

    async def main() -> tuple[int, float | None]:
        watch = await watched_while(pauses=True)
        return watch.stalls, watch.longest_wall_ms()

    stalls, longest_wall_ms = trio.run(main)
    assert stalls == 0
    assert longest_wall_ms is not None
    assert longest_wall_ms >= STALL_MS
