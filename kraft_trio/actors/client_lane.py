"""The lane of the clients: in one turn of the event loop only so much of their work begins.

A turn runs every task that can run, in random order.  The quorum's own tasks and its peers' connections stay out of the
lane, so what they wait for clients is what one turn admits, however many connections send however much.  When the
quorum has nothing to do, the turns just follow each other faster: the lane leaves no time unused.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

import trio

from kraft_trio.actors.loop_turns import LoopTurns

PRODUCE_UNITS_PER_TURN: Final = 64
OTHER_UNITS_PER_TURN: Final = 32
OTHER_UNITS: Final = 14
ANSWER_BYTES_PER_UNIT: Final = 16 * 1024
"""So much of a Produce request or of an answer costs the event loop one more unit: it is copied, not looked into."""
_OTHER_BYTES_PER_UNIT: Final = 64
"""Of other requests, whose elements may have two bytes each, and are decoded and answered one by one."""
MAX_OTHER_UNITS: Final = 512
"""Above that, a request costs no more: a frame may have only so many elements."""


def produce_units(size: int) -> int:
    """What a Produce request of so many bytes costs: one turn at most.

    What commits is cheap: the more of it one turn takes, the fewer writes, fsyncs and Fetches carry it.
    """
    return min(1 + size // ANSWER_BYTES_PER_UNIT, PRODUCE_UNITS_PER_TURN)


def other_units(size: int) -> int:
    """What any other request of so many bytes costs."""
    return min(OTHER_UNITS + size // _OTHER_BYTES_PER_UNIT, MAX_OTHER_UNITS)


_Waiting: TypeAlias = "deque[tuple[int, trio.lowlevel.Task]]"


class ClientLanes:
    """One lane for Produce and one for everything else, so that no Produce waits for what else clients ask.

    Owned by NetworkServer.  `run` must be running for `enter` of either lane to return.
    """

    def __init__(self) -> None:
        self._wanted = trio.lowlevel.ParkingLot()
        self.produce = ClientLane(self._wanted, PRODUCE_UNITS_PER_TURN)
        self.others = ClientLane(self._wanted, OTHER_UNITS_PER_TURN)

    async def run(self) -> None:
        """Admit those who wait, turn by turn, until cancelled."""
        while True:
            if self.produce.is_wanted or self.others.is_wanted:
                await trio.lowlevel.checkpoint()
            else:
                await self._wanted.park()
            self.produce.admit()
            self.others.admit()


class ClientLane:
    """Admits requests, first come, first served.

    A request that costs more than one turn has is admitted alone, and nothing follows it in the turns that it uses up.
    """

    def __init__(self, wanted: trio.lowlevel.ParkingLot, units_per_turn: int) -> None:
        """The task that calls `admit` in every turn while the lane is wanted parks at `wanted` otherwise."""
        self._units_per_turn = units_per_turn
        self._turns = LoopTurns.of_this_run()
        self._turn = 0
        """The turn for which `_spent` counts, which may be the next one."""
        self._spent = 0
        self._free_from = 0
        """The first turn that no earlier request has used up."""
        self._waiting: _Waiting = deque()
        self._wanted = wanted

    @property
    def is_wanted(self) -> bool:
        return bool(self._waiting)

    def enter_now(self, units: int) -> bool:
        """Whether a request of that cost may be served in this turn."""
        number = self._turns.number
        if self._waiting or number < self._turn:
            return False
        return self._spend(units, number)

    def _spend(self, units: int, turn: int) -> bool:
        """Whether that turn has so many units left, which are then spent."""
        if turn > self._turn:
            self._turn = turn
            self._spent = 0
        if turn < self._free_from or (self._spent and self._spent + units > self._units_per_turn):
            return False
        self._spent += units
        if units > self._units_per_turn:
            self._free_from = turn + -(-units // self._units_per_turn)
        return True

    async def enter(self, units: int) -> None:
        """Wait for the turn in which a request of that cost may be served."""
        entry = (units, trio.lowlevel.current_task())
        self._waiting.append(entry)
        self._wanted.unpark_all()

        def leave(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._waiting.remove(entry)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def charge(self, units: int) -> None:
        """What was admitted in this turn has turned out to cost so much more."""
        self._spent += units

    def admit(self) -> None:
        """Let in those who wait, for the next turn, in which they take their step."""
        next_turn = self._turns.number + 1
        waiting = self._waiting
        while waiting and self._spend(waiting[0][0], next_turn):
            trio.lowlevel.reschedule(waiting.popleft()[1])
