"""poll-idle-ratio-avg: the share of time in which the event loop waits."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.metrics.idle_time import EVERY_S, IdleTime


async def test_waiting_counts_and_working_does_not(mock_clock: trio.testing.MockClock) -> None:
    idle = IdleTime()
    assert idle.ratio() is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idle.look)
        await trio.testing.wait_all_tasks_blocked()
        idle.before_io_wait(10.0)
        mock_clock.jump(3.0)
        idle.after_io_wait(10.0)
        mock_clock.jump(1.0)
        idle.before_io_wait(0.0)
        mock_clock.jump(4.0)
        idle.after_io_wait(0.0)
    assert idle.ratio() == pytest.approx(3 / 8), "a round with nothing to wait for is no idle time"


async def test_trio_calls_it_while_it_looks_and_not_in_between() -> None:
    calls = 0

    class Counting(IdleTime):
        def before_io_wait(self, timeout: float) -> None:
            nonlocal calls
            calls += 1
            super().before_io_wait(timeout)

    idle = Counting()
    await idle.look()
    assert calls > 0
    ratio = idle.ratio()
    assert ratio is not None
    assert 0.0 < ratio <= 1.0
    seen = calls
    await trio.sleep(0.01)
    assert calls == seen


async def test_a_cancelled_look_leaves_nothing_behind() -> None:
    idle = IdleTime()
    with trio.move_on_after(0.001):
        await idle.look()
    with pytest.raises(KeyError):
        trio.lowlevel.remove_instrument(idle)
    assert idle.ratio() is None


async def test_it_looks_again_and_again(autojump_clock: trio.testing.MockClock) -> None:
    looks: list[float] = []

    class Counting(IdleTime):
        async def look(self) -> None:
            looks.append(trio.current_time())
            await super().look()

    with trio.move_on_after(5 * EVERY_S - 0.01):
        await Counting().run()
    assert looks == pytest.approx([looks[0] + EVERY_S * n for n in range(5)])
