"""Limits how much of the store is read for clients in one turn of the event loop, so that the quorum continues.

A range is read after it has waited for the quorum, perhaps together with many others; one change may concern many
watches.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import trio

from kraft_trio.actors.network.client_lane import ANSWER_BYTES_PER_UNIT, MAX_OTHER_UNITS, ClientLane, admit_turn_by_turn
from kraft_trio.kv.budget import KEYS_PER_PIECE, Steps

T = TypeVar("T")

UNITS_PER_TURN: Final = 64
KEYS_PER_UNIT: Final = 32
LARGE_READS: Final = 4
"""Reads of more than a piece that an address has under way."""
_UNITS_PER_PIECE: Final = KEYS_PER_PIECE // KEYS_PER_UNIT

asker: ContextVar[str] = ContextVar("asker", default="")
"""The address of the client whose request a task serves."""


class ReadTurns:
    """Lets reads begin, one of each address in turn."""

    def __init__(self) -> None:
        self._wanted = trio.lowlevel.ParkingLot()
        self._lane = ClientLane(self._wanted, UNITS_PER_TURN)
        self._large: WeakValueDictionary[str, trio.Semaphore] = WeakValueDictionary()
        """Places for the large reads of each address."""

    async def run(self) -> None:
        """Let those who wait begin, turn by turn, until cancelled."""
        await admit_turn_by_turn(self._wanted, (self._lane,))

    async def finish(self, steps: Steps[T], keys: int) -> T:
        """Do work in pieces, each in its turn, and return its result.  `run` must be running.

        `keys` is how many keys it may look at.  An address has few large reads at once, because each keeps what it has
        read.
        """
        if keys <= KEYS_PER_PIECE:
            return await self._finish(steps, keys)
        async with self._large.setdefault(asker.get(), trio.Semaphore(LARGE_READS)):
            return await self._finish(steps, keys)

    async def _finish(self, steps: Steps[T], keys: int) -> T:
        units = min(1 + keys // KEYS_PER_UNIT, _UNITS_PER_PIECE)
        while True:
            await self._enter(units)
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            units = _UNITS_PER_PIECE

    async def begin_part(self, keys: int = 0, size: int = 0) -> None:
        """Wait for the turn in which so many changes may be looked at, or so many bytes be sent.

        `run` must be running.
        """
        await self._enter(min(1 + keys // KEYS_PER_UNIT + size // ANSWER_BYTES_PER_UNIT, MAX_OTHER_UNITS))

    async def _enter(self, units: int) -> None:
        if not self._lane.enter_now(units):
            await self._lane.enter(units, asker.get())
