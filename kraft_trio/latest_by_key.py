"""A state machine that keeps the newest record of each key: what a compacted topic of Kafka's keeps (KIP-630)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from typing import Final

from kraft_trio.storage.batch import NewRecord, Record

_Key = bytes | int
"""A record's key; for one without, a number that no other has."""

_MAX_TIMESTAMP_MS: Final = 2**62
"""Records of a snapshot share batches, in which two timestamps must not be further apart than a varint reaches."""


class LatestByKey:
    """`on_commit` and snapshots of a node: the newest record of each key, in the order of the log.

    A record whose value is null deletes its key.  A record without a key can have no newer one: all of them are kept.
    Equal logs give equal snapshots, byte for byte, also where one replica began with a snapshot and another did not.
    """

    def __init__(self) -> None:
        self._base: dict[_Key, NewRecord] = {}
        """In the order of the log; while a snapshot is being written, as it was when that began."""
        self._changes: dict[_Key, NewRecord | None] | None = None
        """What has changed since that began, in the order of the log; None for a key that was deleted."""
        self._saves = 0
        """How many times the state was saved or replaced: what an older save still reads is no concern of a newer."""

    def __len__(self) -> int:
        """How many records there are."""
        changes = self._changes or {}
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
        self._base, self._changes = base, None
        self._saves += 1

    def save(self) -> Generator[NewRecord, None, None]:
        """The state as it is now; what is changed while it is read is kept aside, and merged at the end."""
        self._merge()
        self._changes = {}
        self._saves += 1
        return self._records(self._base, self._saves)

    def _records(self, base: dict[_Key, NewRecord], save: int) -> Generator[NewRecord, None, None]:
        try:
            yield from base.values()
        finally:
            if save == self._saves:
                self._merge()

    def _apply(self, record: Record) -> None:
        key = record.offset if record.key is None else record.key
        deletes = record.value is None and record.key is not None
        newest = None if deletes else _kept(record)
        if self._changes is not None:
            self._changes.pop(key, None)
            self._changes[key] = newest
            return
        self._base.pop(key, None)
        if newest is not None:
            self._base[key] = newest

    def _merge(self) -> None:
        changes, self._changes = self._changes, None
        for key, record in (changes or {}).items():
            self._base.pop(key, None)
            if record is not None:
                self._base[key] = record


def _kept(record: Record) -> NewRecord:
    timestamp_ms = max(-1, min(record.timestamp_ms, _MAX_TIMESTAMP_MS))
    return NewRecord(record.value, record.key, record.headers, timestamp_ms)
