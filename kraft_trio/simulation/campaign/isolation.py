"""Runs that cannot harm the others, even if one raises, never ends, or ends its process."""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kraft_trio.simulation.campaign.outcome import DIED, STUCK, Failure, Outcome
from kraft_trio.simulation.campaign.watchdog import WAITING_FACTOR, Stuck, real_time_limit
from kraft_trio.system.support import no_windows

if sys.platform == "win32":
    raise no_windows("the simulator")

_GRACE: Final = 1.25
"""A run that exceeds its limit by this factor has its process killed."""

_STDERR: Final = 2
"""The descriptor itself, because `sys.stderr` may be an object without one."""

_TRACEBACK_LINES: Final = 60


def guarded(seed: int, run: Callable[[int], Outcome], limit_s: float) -> Outcome:
    """The outcome of that seed, even if the run raises or takes more than `limit_s` CPU seconds.

    A run that Python code cannot end, such as a loop in C, ends the process.
    """
    began = time.perf_counter()
    try:
        with _end_of_process(limit_s * WAITING_FACTOR * _GRACE), real_time_limit(limit_s):
            return run(seed)
    except Stuck as stuck:
        failure = Failure(STUCK, str(stuck), 0.0, tuple(_lines(stuck)))
    except Exception as error:
        failure = Failure(type(error).__name__, str(error) or "no message", 0.0, tuple(_lines(error)))
    return _lost(seed, failure, began)


def forked(seed: int, run: Callable[[int], Outcome], limit_s: float) -> Outcome:
    """Like `guarded`, but in a process of its own, so that it also returns the outcome of a run that ends its process.

    Raises OSError if no process can be started.
    """
    began = time.perf_counter()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(seed, run, limit_s, writer)
    os.close(writer)
    answer: bytes | None = None
    try:
        answer = _read(reader, limit_s * WAITING_FACTOR * _GRACE**2)
    finally:
        os.close(reader)
        if answer is None:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if answer is None:
        failure = Failure(STUCK, f"still running after {limit_s * WAITING_FACTOR * _GRACE**2:g} s", 0.0, ())
    elif status == 0:
        outcome = pickle.loads(answer)
        assert isinstance(outcome, Outcome)
        return outcome
    else:
        failure = Failure(DIED, "the process that ran it ended before the run did", 0.0, (_ending(status),))
    return _lost(seed, failure, began)


def _answer(seed: int, run: Callable[[int], Outcome], limit_s: float, writer: int) -> None:
    """The child's whole life; never returns."""
    code = 1
    try:
        with open(writer, "wb") as file:
            pickle.dump(guarded(seed, run, limit_s), file)
        code = 0
    finally:
        # The child must not run the parent's clean-up code.
        os._exit(code)


def _read(reader: int, limit_s: float) -> bytes | None:
    """What the child writes before it ends; None if it does not end in that time."""
    ends_at = time.monotonic() + limit_s
    chunks: list[bytes] = []
    while select.select([reader], [], [], max(0.0, ends_at - time.monotonic()))[0]:
        chunk = os.read(reader, 1 << 20)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
    return None


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"


@contextmanager
def _end_of_process(limit_s: float) -> Iterator[None]:
    faulthandler.dump_traceback_later(limit_s, exit=True, file=_STDERR)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _lost(seed: int, failure: Failure, began: float) -> Outcome:
    return Outcome(seed, failure, 0.0, time.perf_counter() - began, "")


def _lines(error: BaseException) -> Iterator[str]:
    for line in traceback.format_exception(error)[-_TRACEBACK_LINES:]:
        yield from line.splitlines()
