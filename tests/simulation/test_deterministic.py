"""The deterministic scheduler: one seed, one order of steps; paused processes take none."""

from __future__ import annotations

import pytest
import trio

from kraft_trio.simulation import deterministic
from kraft_trio.simulation.deterministic import SUPPORTED_TRIO, process, run_deterministically, run_queue


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
    from trio._core import _run

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
