"""A state machine that keeps the newest record of each key: what a compacted topic of Kafka's keeps (KIP-630)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Generator, Sequence
from typing import Final

from kraft_trio.storage.batch import NewRecord, Record

_Key = bytes | int
"""A record's key; for one without, a number that no other has."""

_MAX_TIMESTAMP_MS: Final = 2**62
"""Records of a snapshot share batches, in which two timestamps must not be further apart than a varint reaches."""


_MERGED_PER_RECORD: Final = 8
"""How many changes each record merges behind a snapshot, so that no single step grows with what changed meanwhile."""


class LatestByKey:
    """A state machine that keeps the newest record of each key, in log order.

    A null value deletes its key.  Records without a key are all kept.  Equal logs give equal snapshots, byte for byte,
    even if one replica started from a snapshot and another did not.
    """

    def __init__(self) -> None:
        self._base: dict[_Key, NewRecord] = {}
        """In the order of the log; while a snapshot is being written, as it was when that began."""
        self._changes: OrderedDict[_Key, NewRecord | None] = OrderedDict()
        """What has changed since that began and is not merged yet, in the order of the log; None for a deleted key."""
        self._is_saving = False
        self._saves = 0
        """How many times the state was saved or replaced: what an older save still reads is no concern of a newer."""

    def __len__(self) -> int:
        """How many records there are."""
        changes = self._changes
        kept = sum(record is not None for record in changes.values())
        return len(self._base) + kept - sum(key in self._base for key in changes)

    async def on_commit(self, records: Sequence[Record]) -> None:
        """Take in committed records, in the order of the log."""
        for record in records:
            self._apply(record)

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        """Put the state of a snapshot in place of the present one."""
        base: dict[_Key, NewRecord] = {}
        async for batch in records:
            for record in batch:
                # Below zero: what is committed later has its offset in the log.
                key = -1 - record.offset if record.key is None else record.key
                base[key] = _kept(record)
        self._base, self._changes = base, OrderedDict()
        self._is_saving = False
        self._saves += 1

    def save(self) -> Generator[NewRecord, None, None]:
        """The state as it is now; what changes while it is read is kept aside, and merged little by little."""
        self._merge(len(self._changes))
        self._is_saving = True
        self._saves += 1
        return self._records(self._base, self._saves)

    def _records(self, base: dict[_Key, NewRecord], save: int) -> Generator[NewRecord, None, None]:
        try:
            yield from base.values()
        finally:
            if save == self._saves:
                self._is_saving = False

    def _apply(self, record: Record) -> None:
        key = record.offset if record.key is None else record.key
        deletes = record.value is None and record.key is not None
        newest = None if deletes else _kept(record)
        if self._is_saving or self._changes:
            self._changes.pop(key, None)
            self._changes[key] = newest
        else:
            self._put(key, newest)
        if not self._is_saving:
            self._merge(_MERGED_PER_RECORD)

    def _merge(self, count: int) -> None:
        """Merge the oldest changes, so many at most."""
        for _ in range(min(count, len(self._changes))):
            self._put(*self._changes.popitem(last=False))

    def _put(self, key: _Key, newest: NewRecord | None) -> None:
        self._base.pop(key, None)
        if newest is not None:
            self._base[key] = newest


def _kept(record: Record) -> NewRecord:
    timestamp_ms = max(-1, min(record.timestamp_ms, _MAX_TIMESTAMP_MS))
    return NewRecord(record.value, record.key, record.headers, timestamp_ms)
