"""Deterministic Trio: the only module that uses its private names.

Trio shuffles the tasks that are ready to run.  A private switch, made for Hypothesis, makes it sort them first and
shuffle them with its own random source.  With that source seeded, a seed determines the order.  The run queue is
replaced by one that can hold back the tasks of a paused process, as SIGSTOP does: they become ready and their timers go
on, but they do not run.

tests/simulation/test_deterministic.py pins the versions of Trio for which this works.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, cast

import structlog
import trio
import trio.testing
from trio._core import _run

T = TypeVar("T")

SUPPORTED_TRIO = ((0, 31), (0, 36))
"""The versions of Trio whose private names work as expected, from (inclusive) and to (exclusive)."""

process: ContextVar[Hashable] = ContextVar("process", default=None)
"""The process that the running task belongs to.  Tasks inherit it from the task that starts them."""


def virtual_clock() -> trio.testing.MockClock:
    """A clock that jumps to the next deadline as soon as every task waits.

    It works like Trio's own, but reads no real clock, and jumps before the scheduler looks for events, not after a turn
    in which there were none.
    """
    clock = cast(Any, trio.testing.MockClock(autojump_threshold=0))

    def sleep_time(deadline: float) -> float:
        """How long to wait for events, now that no task is ready to run."""
        if deadline == math.inf or _runner().waiting_for_idle:
            return 0 if deadline <= clock._virtual_base else math.inf
        if deadline > clock._virtual_base:
            clock.jump(deadline - clock._virtual_base)
        return 0

    clock.deadline_to_sleep_time = sleep_time
    clock.current_time = partial(attrgetter("_virtual_base"), clock)
    return cast(trio.testing.MockClock, clock)


class Timer:
    """Wakes one task at a time that may be moved meanwhile.

    It does what a cancel scope with a deadline does around `trio.sleep_forever`, at a fraction of the cost.  To Trio's
    deadlines it looks like such a scope.
    """

    def __init__(self) -> None:
        self._registered_deadline = math.inf
        self._task: trio.lowlevel.Task | None = None

    @property
    def is_awaited(self) -> bool:
        return self._task is not None

    async def wait_until(self, time: float, *, shielded: bool = False) -> None:
        """Wait until that time, or the time to which it is moved; a `shielded` wait is not cancelled.

        Raises trio.BusyResourceError if another task is waiting.
        """
        if self._task is not None:
            raise trio.BusyResourceError("another task is waiting already")
        self._task = trio.lowlevel.current_task()
        self.move_to(time)
        if shielded:
            await trio.lowlevel.wait_task_rescheduled(_never_abort)
            return
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        # The task of a paused process may have been cancelled since.
        await trio.lowlevel.checkpoint_if_cancelled()

    def move_to(self, time: float) -> None:
        """Move the end of the present wait, if there is one."""
        if self._task is None or time == self._registered_deadline:
            return
        deadlines = _runner().deadlines
        if self._registered_deadline != math.inf:
            deadlines.remove(self._registered_deadline, self)
        if time != math.inf:
            deadlines.add(time, self)
        self._registered_deadline = time

    def _cancel(self, _reason: object) -> None:
        """Trio calls this at the time."""
        task = self._task
        assert task is not None
        self._end()
        trio.lowlevel.reschedule(task)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._end()
        return trio.lowlevel.Abort.SUCCEEDED

    def _end(self) -> None:
        self.move_to(math.inf)
        self._task = None


def _never_abort(_raise_cancel: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


async def sleep(seconds: float, *, shielded: bool = False) -> None:
    """`trio.sleep` at a fraction of the cost; a `shielded` one is not cancelled."""
    await Timer().wait_until(current_time() + seconds, shielded=shielded)


class RunQueue(deque[Any]):
    """The tasks that are ready to run, except those of paused processes."""

    def __init__(self, ready: Iterable[Any] = (), seed: int | str = 0) -> None:
        super().__init__(ready)
        self.seed = seed
        """The seed of the run."""
        self._held: dict[Hashable, list[Any]] = {}

    def _append_or_hold(self, task: Any) -> None:
        if (held := self._held.get(task.context.get(process))) is not None:
            held.append(task)
        else:
            super().append(task)

    def pause(self, paused: Hashable) -> None:
        """Hold back every task of that process from now on, including those that are ready."""
        held = self._held.setdefault(paused, [])
        # Only now, because the deque's own method costs nothing.
        self.append = self._append_or_hold  # type: ignore[method-assign]
        for task in list(self):
            if task.context.get(process) == paused:
                self.remove(task)
                held.append(task)

    def resume(self, paused: Hashable) -> None:
        """Let the tasks of that process run."""
        for task in self._held.pop(paused, ()):
            super().append(task)
        if not self._held and "append" in self.__dict__:
            del self.append


def _runner() -> Any:
    return _run.GLOBAL_RUN_CONTEXT.runner


def current_time() -> float:
    """`trio.current_time` at a fraction of the cost."""
    return _run.GLOBAL_RUN_CONTEXT.runner.clock.current_time()


def run_queue() -> RunQueue:
    """The queue of the current deterministic run.  Raises RuntimeError outside of a run."""
    queue = getattr(getattr(_run.GLOBAL_RUN_CONTEXT, "runner", None), "runq", None)
    if not isinstance(queue, RunQueue):
        raise RuntimeError(
            "not inside a deterministic run: use kraft_trio.testing.run or kraft_trio.simulation.simulate"
        )
    return queue


def run_deterministically(main: Callable[[], Awaitable[T]], *, seed: int | str) -> T:
    """`trio.run` in virtual time: the same seed gives the same order of steps in any process.

    Raises RuntimeError if the installed version of Trio is not supported, and whatever `main` raises.
    """
    version = tuple(int(part) for part in trio.__version__.split(".")[:2])
    if not SUPPORTED_TRIO[0] <= version < SUPPORTED_TRIO[1]:
        raise RuntimeError(
            f"trio {trio.__version__}: the simulator knows the scheduler of versions "
            f"{'.'.join(map(str, SUPPORTED_TRIO[0]))} to (excluding) {'.'.join(map(str, SUPPORTED_TRIO[1]))}"
        )

    async def with_own_run_queue() -> T:
        runner = _runner()
        runner.runq = RunQueue(runner.runq, seed)
        return await main()

    scheduler = cast(Any, _run)
    switch, source = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r
    # Saved here and not where logs are captured, because an aborted run does not finish its tasks.
    logging = structlog.get_config()
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = True, random.Random(f"{seed}/scheduler")
    try:
        return trio.run(with_own_run_queue, clock=virtual_clock())
    except BaseExceptionGroup as group:
        # Ctrl-C interrupts any task, and arrives in the groups of its nurseries.
        if group.split(KeyboardInterrupt)[0] is not None:
            raise KeyboardInterrupt from None
        raise
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = switch, source
        structlog.configure(**logging)
