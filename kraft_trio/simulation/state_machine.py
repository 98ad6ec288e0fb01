"""A state machine with snapshots, for simulated nodes."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from kraft_trio.storage.batch import NewRecord, Record

_FORGOTTEN: Final = b"forgotten"


NOTHING: Final = bytes(16)
"""The digest of no values."""


def digest_after(digest: bytes, value: bytes) -> bytes:
    """Of the values that `digest` is of, and one more: equal exactly for equal values in the same order."""
    return hashlib.blake2b(digest + value, digest_size=len(NOTHING)).digest()


class RememberedValues:
    """A state machine that remembers every value it was given, in order; of old ones only their digest, where it may.

    So its snapshots stay small however long a run is, and still nothing can be left out, doubled or exchanged in one
    that does not show.
    """

    def __init__(self, most: int | None = None) -> None:
        """`most`: how many values it remembers one by one; None: all."""
        self.values: list[bytes] = []
        self.loaded: list[int] = []
        """The end offsets (exclusive) of the snapshots it was given."""
        self._most = most
        self._forgotten = NOTHING
        """Digest of those before `values`."""

    async def on_commit(self, records: Sequence[Record]) -> None:
        self.values += [record.value or b"" for record in records]
        if self._most is not None and len(self.values) > self._most:
            count = len(self.values) - self._most
            self._forgotten = functools.reduce(digest_after, self.values[:count], self._forgotten)
            self.values = self.values[count:]

    @property
    def digest(self) -> bytes:
        """Of all values it was ever given."""
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
