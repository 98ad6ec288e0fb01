"""Clocks and randomness are noticed by whatever name they were imported, and named with the line that uses them."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import pytest
import trio

from kraft_trio.simulation.commands.call_watch import watched_calls
from tests.simulation import broken_banks as banks


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (banks.uses_time, "time.time"),
        (banks.uses_monotonic, "time.monotonic"),
        (banks.uses_now, "datetime.now"),
        (banks.uses_today, "date.today"),
        (banks.uses_random, "random.random"),
        (banks.uses_shuffle, "random.shuffle"),
        (banks.uses_urandom, "os.urandom"),
        (banks.uses_uuid4, "uuid.uuid4"),
        (banks.uses_token, "secrets.token_hex"),
        (banks.uses_randbelow, "secrets.randbelow"),
        (banks.uses_unseeded, "random.Random() without a seed"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_call_is_named_with_its_line(function: Callable[[], object], name: str) -> None:
    with watched_calls() as calls:
        function()
    assert calls
    assert calls[0].startswith(f"{name} at broken_banks.py:")
    assert calls[0].endswith(f", in {function.__name__}")


@pytest.mark.parametrize("function", [banks.uses_seeded, banks.uses_dates])
def test_what_depends_on_arguments_alone_may_be_used(function: Callable[[], object]) -> None:
    with watched_calls() as calls:
        function()
    assert calls == []


async def test_the_time_of_trio_is_a_clock() -> None:
    with watched_calls() as calls:
        trio.current_time()
    assert calls[0].startswith("trio.current_time at test_call_watch.py:")


def test_the_clock_of_a_garbage_collection_is_not_the_functions() -> None:
    """Hypothesis measures each collection."""

    def measure(*_: object) -> None:
        time.perf_counter()

    threshold = gc.get_threshold()
    gc.callbacks.append(measure)
    gc.set_threshold(1)
    try:
        with watched_calls() as calls:
            cycles: list[list[object]] = [[] for _ in range(100)]
            for cycle in cycles:
                cycle.append(cycle)
        assert gc.isenabled()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(measure)
    assert calls == []


def test_another_profile_function_is_back_afterwards() -> None:
    def mine(*_: object) -> None: ...

    sys.setprofile(mine)
    try:
        with watched_calls():
            pass
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
