"""Runs a command line of `kraft` inside the simulation, word for word as it was printed.

A command reads its arguments, runs an async function with `trio.run`, and prints what that returns.  Inside the
simulation, `trio.run` runs already.  So the command is run until it wants `trio.run`; then its function is awaited
here, and the command is run again, which gets the result at once.  Before `trio.run`, commands only read.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import pytest
import trio

from kraft_trio.cli import run


class _Wanted(BaseException):
    def __init__(self, call: Callable[[], Awaitable[Any]]) -> None:
        self.call = call


@attrs.frozen
class Ran:
    """What the command printed, and its exit code."""

    code: int
    out: str
    err: str


async def run_command(arguments: Sequence[str]) -> Ran:
    """Run `kraft` with these arguments in the present loop."""
    results: list[tuple[Any, BaseException | None]] = []
    while True:
        turn = iter(results)

        def replayed(function: Callable[..., Awaitable[Any]], *given: Any, turn: Any = turn) -> Any:
            for value, error in turn:
                if error is not None:
                    raise error
                return value
            raise _Wanted(lambda: function(*given))

        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            patch.setattr(trio, "run", replayed)
            try:
                return Ran(run(list(arguments)), out.getvalue(), err.getvalue())
            except _Wanted as wanted:
                call = wanted.call
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                results.append((await call(), None))
            except trio.Cancelled:
                raise
            except Exception as error:
                results.append((None, error))
