"""All that a run can reach: cells of messages, roles and voters, actions of the specification, and their neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraft_trio.simulation.campaign.cells import CELLS, Cell, CellCoverage
from kraft_trio.simulation.facts.actions import ACTIONS, PAIRS, ActionCoverage
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.world import World


def name_of_cell(cell: Cell) -> str:
    message, role, situation = cell
    return f"{message} at a {role}, {situation}"


def name_of_pair(pair: tuple[str, str]) -> str:
    return " > ".join(pair)


REACHABLE: Final = (*map(name_of_cell, CELLS), *ACTIONS, *map(name_of_pair, PAIRS))
"""The names of all.  Some of them are impossible, and it is not known which."""

_NUMBERS: Final = {name: number for number, name in enumerate(REACHABLE)}


class Reached:
    """Collects what one run reaches."""

    def __init__(self, facts: RunFacts) -> None:
        self._cells = CellCoverage(facts)
        self._actions = ActionCoverage(facts)

    def listen(self, world: World) -> None:
        """Hear of all events and messages from now on."""
        world.trace.listeners.append(self._actions.heard)
        world.message_listeners.append(self._message)

    def _message(self, message: Message) -> None:
        if message.delivered:
            self._cells.delivered(message)
            self._actions.delivered(message)

    def names(self) -> frozenset[str]:
        """Those of REACHABLE that were reached so far."""
        cells, pairs = map(name_of_cell, self._cells.cells), map(name_of_pair, self._actions.pairs)
        return frozenset(_NUMBERS.keys() & {*cells, *self._actions.actions, *pairs})


def packed(names: Iterable[str]) -> str:
    """A set of names of REACHABLE as a hexadecimal number: bit N is the name with number N."""
    return f"{sum(1 << _NUMBERS[name] for name in names):x}"


def unpacked(text: str) -> list[int]:
    """The numbers of the names in a packed set, ascending.  Raises ValueError."""
    bits, numbers = int(text, 16), list[int]()
    if not 0 <= bits < 1 << len(REACHABLE):
        raise ValueError(f"{text}: expected the names of {len(REACHABLE)}")
    while bits:
        lowest = bits & -bits
        numbers.append(lowest.bit_length() - 1)
        bits ^= lowest
    return numbers
