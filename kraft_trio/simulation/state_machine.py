"""A state machine with snapshots, for simulated nodes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from kraft_trio.simulation.facts.committed import NOTHING, digest_after
from kraft_trio.storage.batches.batch import NewRecord, Record

_FORGOTTEN: Final = b"forgotten"


class RememberedValues:
    """A state machine that remembers the values it was given, in order; of the oldest ones only a digest.

    Its snapshots stay small in a long run, but still show every value that is lost, duplicated or exchanged.
    """

    def __init__(self, most: int | None = None) -> None:
        """`most` is how many values it remembers one by one; None for all."""
        self.values: list[bytes] = []
        self.loaded: list[int] = []
        """The end offsets (exclusive) of the snapshots that it has loaded."""
        self._most = most
        self._forgotten = NOTHING
        """The digest of the values before `values`."""

    async def on_commit(self, records: Sequence[Record]) -> None:
        self.values += [record.value or b"" for record in records]
        if self._most is not None and len(self.values) > self._most:
            count = len(self.values) - self._most
            self._forgotten = functools.reduce(digest_after, self.values[:count], self._forgotten)
            self.values = self.values[count:]

    @property
    def digest(self) -> bytes:
        """The digest of all values that it was given."""
        return functools.reduce(digest_after, self.values, self._forgotten)

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        values, forgotten = [], NOTHING
        async for some in records:
            for record in some:
                if record.key == _FORGOTTEN:
                    forgotten = record.value or b""
                else:
                    values.append(record.value or b"")
        self.values, self._forgotten = values, forgotten
        self.loaded.append(end_offset)

    def save(self) -> Iterable[NewRecord]:
        values, count = self.values, len(self.values)
        first = [NewRecord(self._forgotten, _FORGOTTEN)] if self._forgotten != NOTHING else []
        return itertools.chain(first, (NewRecord(values[index]) for index in range(count)))
