"""Tasks that wait for changes of the store.  A change wakes only those whose keys it touches."""

from __future__ import annotations

from typing import TypeVar

import attrs
from trio.lowlevel import ParkingLot

from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.machine import KvMachine

K = TypeVar("K")


@attrs.define(eq=False)
class _Place:
    """Where the tasks wait that wait for the same keys.  It is used once."""

    lot: ParkingLot = attrs.field(factory=ParkingLot)
    revision: int = 0
    """The revision that has woken them."""

    def wake(self, revision: int) -> None:
        self.revision = revision
        self.lot.unpark_all()


class ChangeWaiters:
    """Those who wait for changes of one machine's store, by key or by range."""

    def __init__(self, machine: KvMachine) -> None:
        self._machine = machine
        self._store = machine.store
        self._told_revision = machine.store.revision
        self._of_key: dict[bytes, _Place] = {}
        self._of_range: dict[Interval, _Place] = {}

    def __len__(self) -> int:
        """How many keys and ranges are waited for."""
        return len(self._of_key) + len(self._of_range)

    async def wait(self, interval: Interval) -> int:
        """Wait for the next change in the interval, and return its revision.

        If a snapshot replaces the store meanwhile, return the first revision that was not told of.
        """
        if interval.end == interval.start + b"\0":
            return await self._wait(self._of_key, interval.start)
        return await self._wait(self._of_range, interval)

    @staticmethod
    async def _wait(places: dict[K, _Place], key: K) -> int:
        place = places.setdefault(key, _Place())
        try:
            await place.lot.park()
        finally:
            if not place.lot and places.get(key) is place:
                del places[key]
        return place.revision

    def tell(self) -> None:
        """Wake those whom the changes since the last call concern."""
        store = self._machine.store
        if store is not self._store:
            self._store = store
            self._wake_all(self._told_revision + 1)
        elif len(self):
            for kv in store.changes(self._told_revision + 1):
                self._wake(kv.key, kv.mod_revision)
        self._told_revision = store.revision

    def _wake(self, key: bytes, revision: int) -> None:
        of_key = self._of_key.pop(key, None)
        if of_key is not None:
            of_key.wake(revision)
        for interval in [interval for interval in self._of_range if key in interval]:
            self._of_range.pop(interval).wake(revision)

    def _wake_all(self, revision: int) -> None:
        for place in (*self._of_key.values(), *self._of_range.values()):
            place.wake(revision)
        self._of_key.clear()
        self._of_range.clear()
