"""A queue and a lock that go from address to address, so that a flood of one address keeps nobody else waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class AddressQueue(Generic[T]):
    """What waits of one address stays in the order in which it came."""

    def __init__(self) -> None:
        self._of_address: dict[str, deque[T]] = {}
        """The first address is the next to have its turn.  An address without anything that waits is not there."""

    def __bool__(self) -> bool:
        return bool(self._of_address)

    @property
    def first(self) -> T:
        """What `pop` would return."""
        return next(iter(self._of_address.values()))[0]

    def append(self, address: str, item: T) -> None:
        self._of_address.setdefault(address, deque()).append(item)

    def remove(self, address: str, item: T) -> None:
        waiting = self._of_address[address]
        waiting.remove(item)
        if not waiting:
            del self._of_address[address]

    def pop(self) -> T:
        """Take the first one.  The other addresses come before what is left of its own."""
        address, waiting = next(iter(self._of_address.items()))
        item = waiting.popleft()
        del self._of_address[address]
        if waiting:
            self._of_address[address] = waiting
        return item


class AddressTurns:
    """Each address that waits gets the lock once before any gets it twice."""

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: AddressQueue[trio.lowlevel.Task] = AddressQueue()

    @asynccontextmanager
    async def held(self, address: str) -> AsyncIterator[None]:
        """Wait for the lock, and hold it in the block."""
        if self._is_held:
            await self._wait(address)
        self._is_held = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, address: str) -> None:
        task = trio.lowlevel.current_task()
        self._waiting.append(address, task)

        def leave(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._waiting.remove(address, task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def _pass_on(self) -> None:
        """The lock stays held while it passes to the next one."""
        if self._waiting:
            trio.lowlevel.reschedule(self._waiting.pop())
        else:
            self._is_held = False
