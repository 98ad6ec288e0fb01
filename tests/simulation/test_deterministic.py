"""The deterministic scheduler: one seed, one order of steps; paused processes take none."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from trio._core import _run

from kraft_trio.simulation import deterministic
from kraft_trio.simulation.deterministic import (
    SUPPORTED_TRIO,
    Timer,
    process,
    run_deterministically,
    run_queue,
    sleep,
)


def steps_of(seed: int) -> list[tuple[int, float]]:
    """Twenty tasks that take three steps each; in which order they did, and when."""
    taken: list[tuple[int, float]] = []

    async def task(number: int) -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            taken.append((number, trio.current_time()))
            await trio.sleep(0.25 * (number % 3))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(task, number)

    run_deterministically(main, seed=seed)
    return taken


def test_a_seed_gives_one_order_of_steps_and_another_another() -> None:
    assert steps_of(1) == steps_of(1)
    assert steps_of(1) != steps_of(2)


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        await trio.sleep(3600)
        return trio.current_time()

    assert run_deterministically(main, seed=0) == pytest.approx(3600)


def test_an_ordinary_run_afterwards_has_its_own_scheduler_again() -> None:
    switch, source = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r
    with pytest.raises(ZeroDivisionError):
        run_deterministically(divides_by_zero, seed=0)
    assert (_run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r) == (switch, source)


async def divides_by_zero() -> None:
    raise ZeroDivisionError


def test_a_paused_process_takes_no_step_and_misses_none() -> None:
    ticks: dict[str, list[float]] = {"paused": [], "other": []}

    async def tick(name: str) -> None:
        process.set(name)
        while True:
            await trio.sleep(1)
            ticks[name].append(round(trio.current_time()))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick, "paused")
            nursery.start_soon(tick, "other")
            await trio.sleep(2.5)
            run_queue().pause("paused")
            await trio.sleep(4)
            run_queue().resume("paused")
            await trio.sleep(2)
            nursery.cancel_scope.cancel()

    run_deterministically(main, seed=0)
    assert ticks["paused"][:2] == [1, 2]
    assert min(tick for tick in ticks["paused"] if tick > 2) >= 6, "its timer had run out long ago"
    assert ticks["other"] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_paused_process_runs_no_task_even_if_it_was_ready() -> None:
    async def main() -> list[str]:
        taken: list[str] = []

        async def task() -> None:
            process.set("paused")
            await trio.lowlevel.checkpoint()
            taken.append("step")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(task)
            await trio.lowlevel.checkpoint()
            run_queue().pause("paused")
            await trio.sleep(1)
            assert not taken
            run_queue().resume("paused")
        return taken

    for seed in range(8):
        assert run_deterministically(main, seed=seed) == ["step"]


async def test_outside_of_a_deterministic_run_there_is_no_such_queue() -> None:
    with pytest.raises(RuntimeError, match="not inside a deterministic run"):
        run_queue()


def test_the_installed_trio_is_a_supported_one() -> None:
    version = tuple(int(part) for part in trio.__version__.split(".")[:2])
    assert SUPPORTED_TRIO[0] <= version < SUPPORTED_TRIO[1]


def test_another_trio_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deterministic.trio, "__version__", "0.99.0")
    with pytest.raises(RuntimeError, match=r"trio 0\.99\.0: .* versions 0\.31 to \(excluding\) 0\.36"):
        run_deterministically(divides_by_zero, seed=0)


def waits_on(timer: Timer, *moves: tuple[float, float]) -> float:
    """When a wait until the fifth second ended that was moved, at those times, to those times."""

    async def main() -> float:
        ended: list[float] = []

        async def wait() -> None:
            await timer.wait_until(5)
            ended.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            for at, to in moves:
                await trio.sleep_until(at)
                timer.move_to(to)
        return ended[0]

    return run_deterministically(main, seed=0)


@pytest.mark.parametrize(
    ("moves", "ended"),
    [
        ((), 5),
        (((1, 3),), 3),
        (((1, 9), (2, 7)), 7),
        (((1, math.inf), (8, 9)), 9),
        (((1, 9), (2, 5)), 5),
        (((1, 0),), 1),
        (((1, -math.inf),), 1),
    ],
)
def test_a_timer_ends_a_wait_at_the_time_it_was_moved_to(moves: Sequence[tuple[float, float]], ended: float) -> None:
    timer = Timer()
    assert waits_on(timer, *moves) == ended
    assert waits_on(timer, *moves) == ended, "it can be used again"


def test_a_cancelled_wait_leaves_the_timer_to_others() -> None:
    async def main() -> float:
        timer = Timer()
        with trio.move_on_after(1) as scope:
            await timer.wait_until(5)
        assert scope.cancelled_caught
        assert timer.waiter is None
        timer.move_to(2)
        await timer.wait_until(7)
        return trio.current_time()

    assert run_deterministically(main, seed=0) == 7


def test_a_wait_that_ended_in_a_paused_process_can_still_be_cancelled() -> None:
    async def main() -> list[str]:
        timer, ended = Timer(), []

        async def wait() -> None:
            process.set("paused")
            await timer.wait_until(1.0)
            ended.append("the task went on")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.5)
            run_queue().pause("paused")
            await trio.sleep(1.0)
            assert timer.waiter is None
            nursery.cancel_scope.cancel()
            run_queue().resume("paused")
        return ended

    assert run_deterministically(main, seed=1) == []


def test_a_timer_has_one_waiter() -> None:
    async def main() -> None:
        timer = Timer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timer.wait_until, 5)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await timer.wait_until(6)
        assert trio.current_time() == 5

    run_deterministically(main, seed=0)


@pytest.mark.parametrize(("shielded", "slept"), [(False, 1), (True, 5)])
def test_a_shielded_sleep_is_not_cancelled(shielded: bool, slept: float) -> None:
    async def main() -> list[float]:
        ended: list[float] = []
        await sleep(0)
        with trio.move_on_after(1):
            try:
                await sleep(5, shielded=shielded)
            finally:
                ended.append(trio.current_time())
            await trio.lowlevel.checkpoint_if_cancelled()
            raise AssertionError("the cancellation is kept")
        await sleep(2)
        return [*ended, trio.current_time()]

    assert run_deterministically(main, seed=0) == [slept, slept + 2]


def test_time_stands_still_while_a_task_waits_for_the_others_to_block() -> None:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5)
            await trio.testing.wait_all_tasks_blocked()
            waited_until = trio.current_time()
        assert trio.current_time() == 5
        return waited_until

    assert run_deterministically(main, seed=0) == 0


def test_equal_deadlines_end_in_the_order_in_which_they_were_set() -> None:
    async def main() -> list[int]:
        ended: list[int] = []

        async def wait(number: int) -> None:
            def end(_raise_cancel: object) -> trio.lowlevel.Abort:
                ended.append(number)
                return trio.lowlevel.Abort.SUCCEEDED

            with trio.move_on_at(5):
                await trio.lowlevel.wait_task_rescheduled(end)

        async with trio.open_nursery() as nursery:
            for number in order:
                nursery.start_soon(wait, number)
                await trio.testing.wait_all_tasks_blocked()
        return ended

    order = [3, 1, 4, 15, 9, 2, 6, 5, 35, 8]
    assert run_deterministically(main, seed=0) == order


def test_moved_deadlines_do_not_pile_up() -> None:
    async def main() -> None:
        timer = Timer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timer.wait_until, 10_000)
            for number in range(5000):
                await sleep(0.001)
                timer.move_to(9000 - number)
            assert len(_run.GLOBAL_RUN_CONTEXT.runner.deadlines._heap) < 2000
            timer.move_to(6)
        assert trio.current_time() == 6

    run_deterministically(main, seed=0)


async def some_rounds() -> None:
    for _ in range(10):
        await trio.lowlevel.checkpoint()


def test_a_call_from_outside_is_made_although_tasks_are_ready_all_the_time() -> None:
    """Threads and signal handlers make such calls."""

    async def main() -> list[str]:
        made: list[str] = []
        token = trio.lowlevel.current_trio_token()
        await some_rounds()
        token.run_sync_soon(made.append, "once")
        await some_rounds()
        assert made == ["once"]
        token.run_sync_soon(made.append, "idempotent", idempotent=True)
        await some_rounds()
        return list(made)  # The end of the run makes the calls that are left.

    assert run_deterministically(main, seed=0) == ["once", "idempotent"]


def test_a_thread_answers() -> None:
    async def main() -> int:
        return await trio.to_thread.run_sync(int, "7")

    assert run_deterministically(main, seed=0) == 7


def test_a_real_socket_is_heard_although_tasks_are_ready_all_the_time() -> None:
    async def main() -> list[bytes]:
        received: list[bytes] = []
        near, far = trio.socket.socketpair()

        async def receive() -> None:
            received.append(await near.recv(10))

        with near, far:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await some_rounds()
                await far.send(b"heard")
                await some_rounds()
                nursery.cancel_scope.cancel()
        return received

    assert run_deterministically(main, seed=0) == [b"heard"]


class Rounds(trio.abc.Instrument):
    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_io_wait(self, timeout: float) -> None:
        self.ends.append(trio.current_time())


def test_an_instrument_sees_the_rounds_while_it_is_added() -> None:
    rounds = Rounds()

    async def main() -> None:
        await trio.sleep(1)
        trio.lowlevel.add_instrument(rounds)
        for _ in range(3):
            await trio.sleep(1)
        trio.lowlevel.remove_instrument(rounds)
        await trio.sleep(1)

    run_deterministically(main, seed=0)
    assert rounds.ends == [2, 3, 4]


@pytest.mark.parametrize(("before", "within"), [(700, 10_000), (20_000, 20_000), (0, 0)])
def test_a_run_collects_garbage_seldom(before: int, within: int) -> None:
    async def main() -> int:
        return gc.get_threshold()[0]

    usual = gc.get_threshold()
    gc.set_threshold(before, *usual[1:])
    try:
        assert run_deterministically(main, seed=1) == within
        assert gc.get_threshold()[0] == before
    finally:
        gc.set_threshold(*usual)
