"""Limits how much work of clients begins in one turn of the event loop.

A turn runs every task that can run, in random order.  The quorum's own tasks and its peers' connections do not use the
lanes.  So they wait for no more client work than one turn admits, however many clients there are.  When the quorum has
nothing to do, turns follow each other faster, so the lanes leave no time unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Never

import trio

from kraft_trio.actors.waiting.address_turns import AddressQueue
from kraft_trio.actors.waiting.loop_turns import LoopTurns

PRODUCE_UNITS_PER_TURN: Final = 128
OTHER_UNITS_PER_TURN: Final = 32
OTHER_UNITS: Final = 14
ANSWER_BYTES_PER_UNIT: Final = 16 * 1024
"""How many bytes of a Produce request or a response cost one unit.  They are only copied."""
_OTHER_BYTES_PER_UNIT: Final = 64
"""How many bytes of other requests cost one unit.  Their elements are decoded one by one."""
HANDSHAKE_UNITS: Final = OTHER_UNITS_PER_TURN
"""The cost of a step of a handshake: one in each turn, because a signature with a large key takes milliseconds."""
MAX_OTHER_UNITS: Final = 512
"""The highest cost of a request, because the elements of a frame are limited."""


def produce_units(size: int) -> int:
    """The units that a Produce request of `size` bytes costs: at most one turn.

    The more appends one turn takes, the fewer writes, fsyncs and Fetches carry them.
    """
    return min(1 + size // ANSWER_BYTES_PER_UNIT, PRODUCE_UNITS_PER_TURN)


def other_units(size: int) -> int:
    """The units that any other request of `size` bytes costs."""
    return min(OTHER_UNITS + size // _OTHER_BYTES_PER_UNIT, MAX_OTHER_UNITS)


class ClientLanes:
    """One lane for Produce and one for all else, so that no Produce waits for other requests.

    A third one is for what a connection sends that may yet turn out to be a replica's, and a fourth one for the
    handshakes of the other connections.

    NetworkServer owns them.  `ClientLane.enter` returns only while `run` is running.
    """

    def __init__(self) -> None:
        self._wanted = trio.lowlevel.ParkingLot()
        self.produce = ClientLane(self._wanted, PRODUCE_UNITS_PER_TURN)
        self.others = ClientLane(self._wanted, OTHER_UNITS_PER_TURN)
        self.beginnings = ClientLane(self._wanted, OTHER_UNITS_PER_TURN)
        self.handshakes = ClientLane(self._wanted, HANDSHAKE_UNITS)
        self._all = (self.beginnings, self.produce, self.others, self.handshakes)

    async def run(self) -> None:
        """Admit waiting requests turn by turn, until cancelled."""
        await admit_turn_by_turn(self._wanted, self._all)


async def admit_turn_by_turn(wanted: trio.lowlevel.ParkingLot, lanes: Sequence[ClientLane]) -> Never:
    """Admit what waits in lanes that share `wanted`, until cancelled."""
    while True:
        if any(lane.is_wanted for lane in lanes):
            await trio.lowlevel.checkpoint()
        else:
            await wanted.park()
        for lane in lanes:
            lane.admit()


class ClientLane:
    """Admits a request of each address in turn, and those of one address in the order in which they came.

    So an address that floods a lane keeps nobody waiting but itself.  A request that costs more than one turn is
    admitted alone, and the lane then stays closed for as many turns.
    """

    def __init__(self, wanted: trio.lowlevel.ParkingLot, units_per_turn: int) -> None:
        """One task calls `admit` in every turn while the lane is wanted, and parks at `wanted` otherwise."""
        self._units_per_turn = units_per_turn
        self._turns = LoopTurns.of_this_run()
        self._turn = 0
        """The turn that `_spent` belongs to; it may be the next one."""
        self._spent = 0
        self._free_from = 0
        """The first turn that no earlier request has used up."""
        self._waiting: AddressQueue[int] = AddressQueue()
        """The units that each task waits for."""
        self._wanted = wanted

    @property
    def is_wanted(self) -> bool:
        return bool(self._waiting)

    def enter_now(self, units: int) -> bool:
        """Enter if a request of that cost may be served in this turn.  Returns whether it may."""
        number = self._turns.number
        if self._waiting or number < self._turn:
            return False
        return self._spend(units, number)

    def _spend(self, units: int, turn: int) -> bool:
        """Spend units of a turn if it has enough left.  Returns whether it had."""
        if turn > self._turn:
            self._turn = turn
            self._spent = 0
        if turn < self._free_from or (self._spent and self._spent + units > self._units_per_turn):
            return False
        self._spent += units
        if units > self._units_per_turn:
            self._free_from = turn + -(-units // self._units_per_turn)
        return True

    async def enter(self, units: int, address: str) -> None:
        """Wait for the turn in which a request of that cost may be served.  `address` is that of who sent it."""
        self._wanted.unpark_all()
        await self._waiting.wait(address, units)

    def charge(self, units: int) -> None:
        """Add to the cost of this turn, because a request that was admitted in this one or before costs more now."""
        if (number := self._turns.number) > self._turn:
            self._turn, self._spent = number, 0
        self._spent += units

    def admit(self) -> None:
        """Admit waiting requests to the next turn, in which they will run."""
        next_turn = self._turns.number + 1
        while self._waiting and self._spend(self._waiting.first, next_turn):
            self._waiting.wake_first()
