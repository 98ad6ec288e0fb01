"""Tasks that wait for changes of the store.  A change wakes only those whose keys it touches.

The log applies a command in one turn of the event loop, whatever it changes and however many tasks wait for it.  So
`tell` only notes the changes, and `run` looks for the tasks that they concern, a part in each turn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Never

import attrs
import trio
from trio.lowlevel import ParkingLot

from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.machine import KvMachine
from kraft_trio.kv.responses import KeyValue

CHANGES_PER_TURN: Final = 2048
"""Changes that are told in one turn: each range is looked for once, however many they are."""
WAKES_PER_TURN: Final = 256
"""Tasks that are woken in one turn."""


@attrs.define(eq=False)
class Place:
    """Where the tasks wait that wait for the same keys.  A change ends it."""

    revision: int = 0
    """Not after that of the first change in the keys since the place was made; 0 as long as there is none."""
    users: int = 0
    lot: ParkingLot = attrs.field(factory=ParkingLot)

    async def wait(self) -> None:
        """Wait until there is a change."""
        if not self.revision:
            await self.lot.park()


class ChangeWaiters:
    """The tasks that wait for changes of one machine's store, by key or by range.  The owner must run `run`."""

    def __init__(self, machine: KvMachine) -> None:
        self._machine = machine
        self._store = machine.store
        self._noted_revision = self.told_revision = machine.store.revision
        """Who waits at a place without a change knows all changes of its keys up to `told_revision`."""
        self._untold: deque[KeyValue] = deque()
        self._of_key: dict[bytes, Place] = {}
        self._of_range: dict[Interval, Place] = {}
        self._waking: deque[Place] = deque()
        self._wanted = ParkingLot()

    def __len__(self) -> int:
        """How many keys and ranges are waited for."""
        return len(self._of_key) + len(self._of_range)

    async def wait(self, interval: Interval) -> int:
        """Wait for the next change in the interval, and return a revision that is not after it.

        If a snapshot replaces the store meanwhile, it is the first revision that was not reported.
        """
        with self.place(interval) as place:
            await place.wait()
            return place.revision

    @contextmanager
    def place(self, interval: Interval) -> Iterator[Place]:
        """In this block, the caller has a place for those who wait for changes in the interval."""
        places: dict[bytes, Place] | dict[Interval, Place] = self._of_range
        key: bytes | Interval = interval
        if interval.end == interval.start + b"\0":
            places, key = self._of_key, interval.start
        place = places.setdefault(key, Place())  # type: ignore[arg-type]
        place.users += 1
        try:
            yield place
        finally:
            place.users -= 1
            if not place.users and places.get(key) is place:  # type: ignore[arg-type]
                del places[key]  # type: ignore[arg-type]

    def tell(self) -> None:
        """Note the changes since the last call."""
        store = self._machine.store
        if store is not self._store:
            self._store = store
            self._untold.clear()
            self._end([*self._of_key.values(), *self._of_range.values()], self.told_revision + 1)
            self._of_key.clear()
            self._of_range.clear()
            self.told_revision = store.revision
        elif self._untold or len(self):
            self._untold.extend(store.changes(self._noted_revision + 1))
        else:
            self.told_revision = store.revision
        self._noted_revision = store.revision
        if self._untold or self._waking:
            self._wanted.unpark_all()

    async def run(self) -> Never:
        """Wake those whom the changes concern, turn by turn, until cancelled."""
        while True:
            if not self._untold and not self._waking:
                await self._wanted.park()
            if not self._waking:
                self._look_at_changes()
            self._wake_some()
            if self._untold or self._waking:
                await trio.lowlevel.checkpoint()

    def _look_at_changes(self) -> None:
        """Find whom the next changes concern."""
        changes = [self._untold.popleft() for _ in range(min(len(self._untold), CHANGES_PER_TURN))]
        for kv in changes:
            of_key = self._of_key.pop(kv.key, None)
            if of_key is not None:
                self._end([of_key], kv.mod_revision)
        if self._of_range and changes:
            keys = sorted(kv.key for kv in changes)
            for interval in list(self._of_range):
                start = bisect_left(keys, interval.start)
                if start < len(keys) and (interval.end is None or keys[start] < interval.end):
                    self._end([self._of_range.pop(interval)], changes[0].mod_revision)
        self.told_revision = self._untold[0].mod_revision - 1 if self._untold else self._noted_revision

    def _end(self, places: list[Place], revision: int) -> None:
        for place in places:
            place.revision = revision
        self._waking += places

    def _wake_some(self) -> None:
        allowed = WAKES_PER_TURN
        while self._waking and allowed:
            allowed -= len(self._waking[0].lot.unpark(count=allowed))
            if not self._waking[0].lot:
                self._waking.popleft()
