"""A value that one actor publishes and the others read: the way out of an actor that is not a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from trio.lowlevel import ParkingLot

T = TypeVar("T")


class Published(Generic[T]):
    """The newest immutable value of one owner.

    Only the owner calls `publish`.  Anyone may read `value`, which is never half of a change, or wait for one that
    satisfies a condition.
    """

    def __init__(self, value: T) -> None:
        self._value = value
        self._readers = ParkingLot()
        self._listeners: list[Callable[[T], object]] = []

    @property
    def value(self) -> T:
        return self._value

    def publish(self, value: T) -> None:
        self._value = value
        for listener in self._listeners:
            listener(value)
        self._readers.unpark_all()

    def look_again(self) -> None:
        """Let those who wait look at their condition again: something beside the value has changed."""
        self._readers.unpark_all()

    def subscribe(self, listener: Callable[[T], object]) -> None:
        """Call `listener`, which must neither block nor fail, with every value, in the step that publishes it."""
        self._listeners.append(listener)

    async def wait_for(self, condition: Callable[[T], bool]) -> T:
        """The first value, the present one included, that satisfies the condition.  Cancellation changes nothing."""
        while not condition(self._value):
            await self._readers.park()
        return self._value
