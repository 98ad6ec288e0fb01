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

UNITS_PER_TURN: Final = 32
PRODUCE_UNITS: Final = 1
"""What commits is cheap: the more of it one turn takes, the fewer writes, fsyncs and Fetches carry it."""
OTHER_UNITS: Final = 8

_Waiting: TypeAlias = "deque[tuple[int, trio.lowlevel.Task]]"


class ClientLane:
    """Admits the requests of clients, first come, first served; at least one a turn, whatever it costs.

    Owned by NetworkServer.  `run` must be running for `enter` to return.
    """

    def __init__(self) -> None:
        self._turns = LoopTurns.of_this_run()
        self._turn = 0
        """The turn for which `_spent` counts, which may be the next one."""
        self._spent = 0
        self._waiting: _Waiting = deque()
        self._wanted = trio.lowlevel.ParkingLot()

    def enter_now(self, units: int) -> bool:
        """Whether a request of that cost may be served in this turn."""
        number = self._turns.number
        if self._waiting or number < self._turn:
            return False
        if number > self._turn:
            self._turn = number
            self._spent = units
            return True
        if self._spent + units > UNITS_PER_TURN:
            return False
        self._spent += units
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

    async def run(self) -> None:
        """Admit those who wait, turn by turn, until cancelled."""
        while True:
            if not self._waiting:
                await self._wanted.park()
            else:
                await trio.lowlevel.checkpoint()
            self._admit()

    def _admit(self) -> None:
        """Whoever is admitted takes its step in the next turn."""
        next_turn = self._turns.number + 1
        if next_turn > self._turn:
            self._turn, self._spent = next_turn, 0
        waiting = self._waiting
        while waiting and (not self._spent or self._spent + waiting[0][0] <= UNITS_PER_TURN):
            units, task = waiting.popleft()
            self._spent += units
            trio.lowlevel.reschedule(task)
