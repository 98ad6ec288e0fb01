"""Trio, made deterministic: the one place that touches its private names.

Trio shuffles the tasks that are ready to run.  Under its private switch, made for Hypothesis, it sorts them first and
shuffles with a random source of its own; seeded here, one seed gives one order.  Its run queue is replaced by one that
can hold back the tasks of a paused process, as SIGSTOP does: they become ready, timers go on, and nothing runs.

tests/simulation/test_deterministic.py pins the versions of Trio that this has been seen to work with.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import structlog
import trio
import trio.testing
from trio._core import _run

T = TypeVar("T")

SUPPORTED_TRIO = ((0, 31), (0, 36))
"""From (inclusive) and to (exclusive) which version the private names below are known to do what is expected."""

process: ContextVar[Hashable] = ContextVar("process", default=None)
"""Whose process the running task belongs to; tasks inherit it from whoever started them."""


def virtual_clock() -> trio.testing.MockClock:
    """Time jumps to the next deadline as soon as every task waits.

    As Trio's own does, but without asking the real clock for the time, nor all of Trio's statistics for one number.
    """
    clock = cast(Any, trio.testing.MockClock(autojump_threshold=0))

    def autojump() -> None:
        jump = _runner().deadlines.next_deadline() - clock._virtual_base
        if 0 < jump < math.inf:
            clock.jump(jump)

    clock._autojump = autojump
    clock.current_time = lambda: clock._virtual_base
    return cast(trio.testing.MockClock, clock)


class RunQueue(deque[Any]):
    """The tasks that are ready to run, but for those of paused processes."""

    def __init__(self, ready: Iterable[Any] = ()) -> None:
        super().__init__(ready)
        self._held: dict[Hashable, list[Any]] = {}

    def append(self, task: Any) -> None:
        if self._held and (held := self._held.get(task.context.get(process))) is not None:
            held.append(task)
        else:
            super().append(task)

    def pause(self, paused: Hashable) -> None:
        """From now on no task of that process takes a step; those that are ready already are held as well."""
        held = self._held.setdefault(paused, [])
        for task in list(self):
            if task.context.get(process) == paused:
                self.remove(task)
                held.append(task)

    def resume(self, paused: Hashable) -> None:
        """Let the tasks of that process run on."""
        for task in self._held.pop(paused, ()):
            super().append(task)


def _runner() -> Any:
    return _run.GLOBAL_RUN_CONTEXT.runner


def run_queue() -> RunQueue:
    """The queue of the deterministic run that this is called in.  Raises RuntimeError outside of one."""
    queue = getattr(getattr(_run.GLOBAL_RUN_CONTEXT, "runner", None), "runq", None)
    if not isinstance(queue, RunQueue):
        raise RuntimeError("not inside a deterministic run: use kraft_trio.simulation.simulate")
    return queue


def run_deterministically(main: Callable[[], Awaitable[T]], *, seed: int | str) -> T:
    """`trio.run` in virtual time: the same seed gives the same order of steps, in any process.

    Raises RuntimeError where the installed Trio is none of those supported, and whatever `main` raises.
    """
    version = tuple(int(part) for part in trio.__version__.split(".")[:2])
    if not SUPPORTED_TRIO[0] <= version < SUPPORTED_TRIO[1]:
        raise RuntimeError(
            f"trio {trio.__version__}: the simulator knows the scheduler of versions "
            f"{'.'.join(map(str, SUPPORTED_TRIO[0]))} to (excluding) {'.'.join(map(str, SUPPORTED_TRIO[1]))}"
        )

    async def with_own_run_queue() -> T:
        runner = _runner()
        runner.runq = RunQueue(runner.runq)
        return await main()

    scheduler = cast(Any, _run)
    switch, source = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r
    # Here and not where the logs are captured: a run that is broken off leaves its tasks where they are.
    logging = structlog.get_config()
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = True, random.Random(f"{seed}/scheduler")
    try:
        return trio.run(with_own_run_queue, clock=virtual_clock())
    except BaseExceptionGroup as group:
        # Ctrl-C strikes any task, and comes out in the groups of its nurseries.
        if group.split(KeyboardInterrupt)[0] is not None:
            raise KeyboardInterrupt from None
        raise
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = switch, source
        structlog.configure(**logging)
