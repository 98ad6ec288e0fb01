"""State machines with snapshots, for simulated nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from kraft_trio.state_snapshots import StateSnapshots
from kraft_trio.storage.batch import NewRecord, Record


class StateMachine(StateSnapshots, Protocol):
    """What a node is given as `on_commit` and as `snapshots`."""

    async def __call__(self, records: Sequence[Record]) -> None: ...


class RememberedValues:
    """A state machine that remembers every value it was given, in order."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.loaded: list[int] = []
        """The end offsets (exclusive) of the snapshots it was given."""

    async def __call__(self, records: Sequence[Record]) -> None:
        self.values += [record.value or b"" for record in records]

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        values = []
        async for some in records:
            values += [record.value or b"" for record in some]
        self.values = values
        self.loaded.append(end_offset)

    def save(self) -> Iterable[NewRecord]:
        values, count = self.values, len(self.values)
        return (NewRecord(values[index]) for index in range(count))
