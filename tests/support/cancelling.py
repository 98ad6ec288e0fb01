"""Cancels a call at a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class _CancelAt(trio.abc.Instrument):
    """Cancels a scope when its task has come to its n-th checkpoint."""

    def __init__(self, scope: trio.CancelScope, number: int) -> None:
        self._scope = scope
        self._task = trio.lowlevel.current_task()
        self._left = number

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def is_cancelled_at(number: int, call: Callable[[], Awaitable[object]]) -> bool:
    """Make the call, and cancel it at that checkpoint.  Returns whether it has so many."""
    with trio.CancelScope() as scope:
        instrument = _CancelAt(scope, number)
        trio.lowlevel.add_instrument(instrument)
        try:
            await call()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancel_called
