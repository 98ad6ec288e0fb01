"""Deterministic Trio: the only module that uses its private names.

Trio shuffles the tasks that are ready to run.  A private switch, made for Hypothesis, makes it sort them first and
shuffle them with its own random source.  With that source seeded, a seed determines the order.  The run queue is
replaced by one that can hold back the tasks of a paused process, as SIGSTOP does: they become ready and their timers
continue, but they do not run.

A run takes thousands of rounds a virtual minute, so deadlines, I/O manager and instruments are replaced by equivalents
that cost less in a round without real events.

tests/simulation/test_deterministic.py pins the versions of Trio for which this works.
"""

from __future__ import annotations

import gc
import math
import random
import types
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Iterator, MutableSequence
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, TypeVar, cast

import structlog
import trio
from trio._core import _run
from trio._core._instrumentation import Instruments
from trio._core._traps import WaitTaskRescheduled

T = TypeVar("T")

SUPPORTED_TRIO = ((0, 31), (0, 36))
"""The versions of Trio whose private names work as expected, from (inclusive) and to (exclusive)."""

process: ContextVar[Hashable] = ContextVar("process", default=None)
"""The process that the running task belongs to.  Tasks inherit it from the task that starts them."""


class VirtualClock(trio.abc.Clock):
    """A clock that jumps to the next deadline as soon as every task waits.

    It works like Trio's own MockClock, but reads no real clock, and jumps before the scheduler looks for events, not
    after a turn in which there were none.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def start_clock(self) -> None:
        """Do nothing: the clock is at 0."""

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """How long to wait for events, now that no task is ready to run."""
        if deadline == math.inf or _runner().waiting_for_idle:
            return 0 if deadline <= self.now else math.inf
        self.now = max(self.now, deadline)
        return 0


class _NothingToTell:
    """The outcome with which a Timer wakes its task: it returns None, any number of times."""

    def unwrap(self) -> None:
        return None


_WOKEN: Final = cast(Any, _NothingToTell())


class Timer:
    """Wakes one task at a time that may be moved meanwhile.

    It does what a cancel scope with a deadline does around `trio.sleep_forever`, at a fraction of the cost.  To Trio's
    deadlines it looks like such a scope.
    """

    __slots__ = ("_registered_deadline", "_wait", "waiter")

    def __init__(self) -> None:
        self._registered_deadline = math.inf
        self._wait: WaitTaskRescheduled | None = None
        self.waiter: trio.lowlevel.Task | None = None
        """The task that waits; None if no task does."""

    async def wait_until(self, time: float, *, shielded: bool = False) -> None:
        """Wait until that time, or the time to which it is moved; a `shielded` wait is not cancelled.

        Raises trio.BusyResourceError if another task is waiting.
        """
        if self.waiter is not None:
            raise trio.BusyResourceError("another task is waiting already")
        task = self.waiter = _run.GLOBAL_RUN_CONTEXT.task
        self.move_to(time)
        wait = _SHIELDED_WAIT if shielded else self._wait
        if wait is None:
            wait = self._wait = WaitTaskRescheduled(self._abort)
        (await _yield_to_scheduler(wait)).unwrap()
        if not shielded and task._cancel_status.effectively_cancelled:
            # The task of a paused process may have been cancelled since.
            await trio.lowlevel.checkpoint_if_cancelled()

    def move_to(self, time: float) -> None:
        """Move the end of the present wait, if there is one."""
        if self.waiter is None or time == self._registered_deadline:
            return
        deadlines: Any = _run.GLOBAL_RUN_CONTEXT.runner.deadlines
        if self._registered_deadline != math.inf:
            deadlines.remove(self._registered_deadline, self)
        if time != math.inf:
            deadlines.add(time, self)
        self._registered_deadline = time

    def wake(self) -> None:
        """End the present wait."""
        task = self.waiter
        assert task is not None
        runner = task._runner
        if self._registered_deadline != math.inf:
            runner.deadlines.remove(self._registered_deadline, cast(Any, self))
            self._registered_deadline = math.inf
        self.waiter = None
        runner.reschedule(task, _WOKEN)

    def _cancel(self, _reason: object) -> None:
        """Trio's own deadlines call this at the time."""
        self.wake()

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self.move_to(math.inf)
        self.waiter = None
        return trio.lowlevel.Abort.SUCCEEDED


@types.coroutine
def _yield_to_scheduler(message: object) -> Generator[object, Any, Any]:
    return (yield message)


def _never_abort(_raise_cancel: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


_SHIELDED_WAIT: Final = WaitTaskRescheduled(_never_abort)


def sleep(seconds: float, *, shielded: bool = False) -> Awaitable[None]:
    """`trio.sleep` at a fraction of the cost; a `shielded` one is not cancelled."""
    return Timer().wait_until(current_time() + seconds, shielded=shielded)


class _Deadlines(_run.Deadlines):
    """Trio's deadlines, which wake timers directly.

    Of equal deadlines, that which was registered first ends first; Trio compares addresses in memory.
    """

    def __init__(self, before: _run.Deadlines) -> None:
        super().__init__()
        self._numbers = count()
        for deadline, _, scope in sorted(before._heap, key=lambda entry: entry[:2]):
            if deadline == scope._registered_deadline:
                self.add(deadline, scope)

    def add(self, deadline: float, cancel_scope: Any) -> None:
        heappush(self._heap, (deadline, next(self._numbers), cancel_scope))
        self._active += 1

    def expire(self, now: float) -> bool:
        heap, has_ended_some = self._heap, False
        scope: Any
        while heap and heap[0][0] <= now:
            deadline, _, scope = heappop(heap)
            if deadline == scope._registered_deadline:
                has_ended_some = True
                if type(scope) is Timer:
                    scope.wake()
                else:
                    scope._cancel(_run.CancelReason(source="deadline"))
        if len(heap) > self._active * 2 + _run.DEADLINE_HEAP_MIN_PRUNE_THRESHOLD:
            self._prune()
        return has_ended_some


class _IoManager:
    """Trio's I/O manager, which polls for events only if there may be some.

    Real events come from file descriptors that a task waits for, and from other threads and signal handlers, whose
    calls are in the entry queue before they wake the scheduler.
    """

    def __init__(self, runner: Any) -> None:
        self._usual, self._entries = runner.io_manager, runner.entry_queue
        self._registered: Any = getattr(self._usual, "_registered", range(2))
        """By file descriptor; that which wakes the scheduler is one of them.  Windows has none."""

    def get_events(self, timeout: float) -> Any:
        entries = self._entries
        if timeout == 0 and len(self._registered) < 2 and not entries.queue and not entries.idempotent_queue:
            return ()
        return self._usual.get_events(timeout)

    def process_events(self, events: Any) -> None:
        if events:
            self._usual.process_events(events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)


class _Instruments(dict[str, Any], Instruments):  # type: ignore[misc]
    """Trio's, as a dict itself: the scheduler asks five times a round whether a hook is in use."""

    def __init__(self, before: Instruments) -> None:
        dict.__init__(self, before.data)

    @property
    def data(self) -> Any:  # type: ignore[override]
        return self


class _Shuffling(random.Random):
    """Trio shuffles the batch of every round, and most batches have one task."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        if len(x) > 1:
            super().shuffle(x)


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


_COLLECT_AFTER: Final = 10_000
"""New objects, net, that start a collection of garbage in a run.  Python's default is 700."""


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Tasks and connections that end leave reference cycles, and Python would look for them after a few of them."""
    before = youngest, *older = gc.get_threshold()
    if youngest:  # Otherwise the caller wants no collections.
        gc.set_threshold(max(youngest, _COLLECT_AFTER), *older)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _runner() -> Any:
    return _run.GLOBAL_RUN_CONTEXT.runner


def current_time() -> float:
    """`trio.current_time` at a fraction of the cost."""
    clock: Any = _run.GLOBAL_RUN_CONTEXT.runner.clock
    try:
        return clock.now  # type: ignore[no-any-return]
    except AttributeError:  # Not a deterministic run.
        return clock.current_time()  # type: ignore[no-any-return]


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
        runner.deadlines = _Deadlines(runner.deadlines)
        runner.io_manager = _IoManager(runner)
        runner.instruments = _Instruments(runner.instruments)
        return await main()

    scheduler = cast(Any, _run)
    switch, source = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r
    # Saved here and not where logs are captured, because an aborted run does not finish its tasks.
    logging = structlog.get_config()
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = True, _Shuffling(f"{seed}/scheduler")
    try:
        with _seldom_collecting():
            return trio.run(with_own_run_queue, clock=VirtualClock())
    except BaseExceptionGroup as group:
        # Ctrl-C interrupts any task, and arrives in the groups of its nurseries.
        if group.split(KeyboardInterrupt)[0] is not None:
            raise KeyboardInterrupt from None
        raise
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = switch, source
        structlog.configure(**logging)
