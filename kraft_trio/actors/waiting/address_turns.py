"""Queues and a lock that go from address to address, so that a flood of one address keeps nobody else waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class AddressQueue(Generic[T]):
    """Waiting tasks, each with what it waits for.  An address has its second turn after all others had their first.

    Tasks of one address keep the order in which they came.
    """

    def __init__(self) -> None:
        self._of_address: dict[str, deque[tuple[T, trio.lowlevel.Task]]] = {}
        """The first address is the next to have its turn.  An address without anything that waits is not there."""

    def __bool__(self) -> bool:
        return bool(self._of_address)

    @property
    def first(self) -> T:
        """What the task waits for that `wake_first` would wake."""
        return next(iter(self._of_address.values()))[0][0]

    async def wait(self, address: str, wanted: T, when_cancelled: Callable[[], object] = lambda: None) -> None:
        """Wait for `wake_first`.  `when_cancelled` is called after a cancelled wait has left the queue."""
        entry = (wanted, trio.lowlevel.current_task())
        self._of_address.setdefault(address, deque()).append(entry)

        def leave(_raise_cancel: object) -> trio.lowlevel.Abort:
            waiting = self._of_address[address]
            waiting.remove(entry)
            if not waiting:
                del self._of_address[address]
            when_cancelled()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def wake_first(self) -> T:
        """Wake the task whose turn it is, and return what it waited for.

        The other addresses come before what is left of its own.
        """
        address, waiting = next(iter(self._of_address.items()))
        wanted, task = waiting.popleft()
        del self._of_address[address]
        if waiting:
            self._of_address[address] = waiting
        trio.lowlevel.reschedule(task)
        return wanted


class AddressTurns:
    """A lock.  Each address that waits gets it once before any gets it twice."""

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: AddressQueue[None] = AddressQueue()

    @asynccontextmanager
    async def held(self, address: str) -> AsyncIterator[None]:
        """Wait for the lock, and hold it in the block."""
        if self._is_held:
            await self._waiting.wait(address, None)
        self._is_held = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """The lock stays held while it passes to the next one."""
        if self._waiting:
            self._waiting.wake_first()
        else:
            self._is_held = False
