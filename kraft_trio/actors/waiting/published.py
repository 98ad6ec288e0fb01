"""A value that one actor publishes and others read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from trio.lowlevel import ParkingLot

T = TypeVar("T")


class Published(Generic[T]):
    """The newest immutable value of one owner.

    Only the owner calls `publish`.  Any task may read `value`, or wait for a value that satisfies a condition.
    """

    def __init__(self, value: T) -> None:
        self.value = value
        """The newest value, which only `publish` changes."""
        self._readers = ParkingLot()
        self._listeners: list[Callable[[T], object]] = []

    def publish(self, value: T) -> None:
        self.value = value
        for listener in self._listeners:
            listener(value)
        self._readers.unpark_all()

    def look_again(self) -> None:
        """Make waiting tasks check their conditions again, because something other than the value has changed."""
        self._readers.unpark_all()

    def subscribe(self, listener: Callable[[T], object]) -> None:
        """Call `listener`, which must neither block nor fail, with every value, in the step that publishes it."""
        self._listeners.append(listener)

    async def wait_for(self, condition: Callable[[T], bool]) -> T:
        """Wait for a value that satisfies the condition.  The current value counts."""
        while not condition(self.value):
            await self._readers.park()
        return self.value
