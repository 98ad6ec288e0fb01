"""Limits how much of the store is read for clients in one turn of the event loop, so that the quorum goes on.

A range is read after it has waited for the quorum, perhaps together with many others; one change may concern many
watches.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

import trio

from kraft_trio.actors.client_lane import ANSWER_BYTES_PER_UNIT, MAX_OTHER_UNITS, ClientLane, admit_turn_by_turn
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.requests import RangeRequest
from kraft_trio.kv.store import Store

UNITS_PER_TURN: Final = 64
KEYS_PER_UNIT: Final = 32

asker: ContextVar[str] = ContextVar("asker", default="")
"""The address of the client whose request a task serves."""


class ReadTurns:
    """Lets reads begin, one of each address in turn."""

    def __init__(self) -> None:
        self._wanted = trio.lowlevel.ParkingLot()
        self._lane = ClientLane(self._wanted, UNITS_PER_TURN)

    async def run(self) -> None:
        """Let those who wait begin, turn by turn, until cancelled."""
        await admit_turn_by_turn(self._wanted, (self._lane,))

    async def begin(self, store: Store, reads: Iterable[RangeRequest]) -> None:
        """Wait for the turn in which these ranges may be read.  `run` must be running."""
        units = 1
        for read in reads:
            if read.range_end:
                units = min(units + _units(store, Interval.of(read.key, read.range_end)), MAX_OTHER_UNITS)
        await self._enter(units)

    async def begin_part(self, keys: int = 0, size: int = 0) -> None:
        """Wait for the turn in which so many changes may be looked at, or so many bytes be sent.

        `run` must be running.
        """
        await self._enter(min(1 + keys // KEYS_PER_UNIT + size // ANSWER_BYTES_PER_UNIT, MAX_OTHER_UNITS))

    async def _enter(self, units: int) -> None:
        if not self._lane.enter_now(units):
            await self._lane.enter(units, asker.get())


def _units(store: Store, interval: Interval) -> int:
    """What it costs to look at the keys, and to answer with values of the usual size."""
    keys = store.count(interval)
    size = keys * store.value_bytes // max(1, store.versions)
    return keys // KEYS_PER_UNIT + size // ANSWER_BYTES_PER_UNIT
