"""Which nodes hear each other, and what has been kept from them so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Literal, TypeAlias

import attrs
import trio

Direction: TypeAlias = tuple[int, int]
"""From one node to another."""
Loss: TypeAlias = Literal["silence", "reset"]
"""Whether what is sent vanishes without a sign, or connections are reset and refused."""


@attrs.define(eq=False)
class Links:
    """The links between nodes, all of which work at first.  A connection needs both of its directions to be opened."""

    effects: Counter[str] = attrs.field(factory=Counter)
    """How often a cut has kept something from a node: a message or a connection held, reset or refused."""
    _cut: dict[Direction, Loss] = attrs.field(factory=dict)
    _healed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    def cut(self, directions: Collection[Direction], loss: Loss) -> None:
        self._cut |= dict.fromkeys(directions, loss)

    def heal(self) -> None:
        """All links work again, and what was held continues."""
        self._cut.clear()
        self._healed.unpark_all()

    def is_cut(self, direction: Direction) -> bool:
        return direction in self._cut

    def refuses(self, one: int, other: int) -> bool:
        """Whether connections between these nodes are reset."""
        return "reset" in (self._cut.get((one, other)), self._cut.get((other, one)))

    async def passage(self, *directions: Direction, what: str) -> None:
        """Wait until these links work.  `what` is held meanwhile, and counted."""
        if any(map(self.is_cut, directions)):
            self.effects[f"{what} held"] += 1
        while any(map(self.is_cut, directions)):
            await self._healed.park()


def between(some: Collection[int], others: Collection[int]) -> set[Direction]:
    """Both directions between each of `some` and each of `others`."""
    return outward(some, others) | outward(others, some)


def outward(some: Collection[int], others: Collection[int]) -> set[Direction]:
    """From each of `some` to each of `others`."""
    return {(one, other) for one in some for other in others if one != other}
