"""A queue in which each address has one turn before any has a second: a flood of one keeps nobody else waiting."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

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
