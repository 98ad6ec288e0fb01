"""Notices clocks and randomness that a function uses, by whatever name it has imported them.

A profile function hears of every call of a C function in the thread, so nothing has to be replaced.  It misses calls
that C functions make themselves, as in `map(time.time, …)`.
"""

from __future__ import annotations

import datetime
import gc
import os
import random
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final

import trio

_CLOCKS: Final = (
    "clock_gettime",
    "clock_gettime_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "thread_time",
    "thread_time_ns",
    "time",
    "time_ns",
)

_FUNCTIONS: Final[dict[object, str]] = {
    **{getattr(time, name): f"time.{name}" for name in _CLOCKS if hasattr(time, name)},
    **{getattr(os, name): f"os.{name}" for name in ("urandom", "getrandom") if hasattr(os, name)},
    random.random: "random.random",
    random.getrandbits: "random.getrandbits",
}
_FUNCTION_NAMES: Final = frozenset(name.partition(".")[2] for name in _FUNCTIONS.values())

_TODAY: Final = frozenset({"now", "today", "utcnow"})

_PYTHON_FUNCTIONS: Final[dict[CodeType, str]] = {
    trio.current_time.__code__: "trio.current_time",
    uuid.uuid1.__code__: "uuid.uuid1",
}
_SEED: Final = random.Random.seed.__code__

_UNSEEDED: Final = "random.Random() without a seed"

_WRAPPERS: Final = frozenset({"random", "secrets", "uuid"})
"""Modules whose functions are named, and not what they call."""


@contextmanager
def watched_calls() -> Iterator[list[str]]:
    """Collect each use of a clock or of randomness in the block, as its name and the line that called it.

    A `random.Random` that was made with a seed may be used.  No garbage is collected meanwhile, because finalizers and
    callbacks of the collector may use clocks, and are not the block's own.
    """
    found: list[str] = []

    def heard(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            name = _name_of(argument)
            if name is not None:
                found.append(_described(frame, name))
        elif event == "call":
            if frame.f_code in _PYTHON_FUNCTIONS and frame.f_back is not None:
                found.append(_described(frame.f_back, _PYTHON_FUNCTIONS[frame.f_code]))
            elif frame.f_code is _SEED and frame.f_locals.get("a") is None and frame.f_back is not None:
                found.append(_described(frame.f_back, _UNSEEDED))

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(heard)
    try:
        yield found
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()


def _name_of(function: Any) -> str | None:
    """The name of a C function that uses a clock or randomness; None for others."""
    name = function.__name__
    if name in _FUNCTION_NAMES:
        return _FUNCTIONS.get(function)
    if name in _TODAY:
        owner = getattr(function, "__self__", None)
        if isinstance(owner, type) and issubclass(owner, datetime.date):
            return f"{owner.__name__}.{name}"
    return None


def _described(caller: FrameType, name: str) -> str:
    frame: FrameType | None = caller
    while frame is not None and frame.f_globals.get("__name__") in _WRAPPERS:
        if name != _UNSEEDED:
            name = f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"
        frame = frame.f_back
    if frame is None:
        return name
    return f"{name} at {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}, in {frame.f_code.co_name}"
