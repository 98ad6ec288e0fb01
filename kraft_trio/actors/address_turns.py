"""A lock that goes from address to address, so that a flood of one address keeps nobody else waiting for all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from kraft_trio.actors.address_queue import AddressQueue


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
