"""Keys and all their versions since the last compaction.

Each change has a revision, which counts up from 2; the changes of one transaction share it.  A version is never changed
once it is written, so that readers and snapshots may keep it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from sortedcontainers import SortedDict

from kraft_trio.kv.errors import COMPACTED, FUTURE_REVISION, KvError
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.responses import KeyValue

FIRST_REVISION: Final = 1
"""The revision of the empty store."""

_mod_revision = attrgetter("mod_revision")


class Store:
    """Owns the versions.  `put` and `delete` belong to the revision that `begin` has opened."""

    def __init__(self) -> None:
        self.revision = FIRST_REVISION
        """The revision of the newest change."""
        self.compacted_revision = 0
        """Earlier states cannot be read any more; the state at this revision can."""
        self.value_bytes = 0
        """The size of all keys and values, old versions included."""
        self._histories: SortedDict[bytes, list[KeyValue]] = SortedDict()
        self._changes: list[KeyValue] = []
        self._next_revision = FIRST_REVISION + 1

    def begin(self) -> None:
        """Begin a transaction: its first change makes a new revision, and the others belong to it."""
        self._next_revision = self.revision + 1

    def get(self, key: bytes) -> KeyValue | None:
        """The present version of a key."""
        history = self._histories.get(key)
        return history[-1] if history and history[-1].version else None

    def put(self, key: bytes, value: bytes, lease: int) -> KeyValue | None:
        """Set a key, and return its previous version."""
        previous = self.get(key)
        revision = self._next_revision
        created, version = (revision, 0) if previous is None else (previous.create_revision, previous.version)
        self._add(KeyValue(key, created, revision, version + 1, value, lease))
        return previous

    def delete(self, interval: Interval) -> list[KeyValue]:
        """Delete the keys of an interval, and return what they had."""
        deleted = list(self.present(interval))
        for kv in deleted:
            self._add(KeyValue(kv.key, mod_revision=self._next_revision))
        return deleted

    def _add(self, kv: KeyValue) -> None:
        self.revision = kv.mod_revision
        self._changes.append(kv)
        history = self._histories.get(kv.key)
        if history is None:
            self._histories[kv.key] = [kv]
        else:
            history.append(kv)
        self.value_bytes += len(kv.key) + len(kv.value)

    @property
    def versions(self) -> int:
        """The number of all versions that are kept."""
        return len(self._changes)

    def count(self, interval: Interval) -> int:
        """The number of keys in an interval that have versions, without looking at each."""
        histories = self._histories
        start: int = histories.bisect_left(interval.start)
        end: int = len(histories) if interval.end is None else histories.bisect_left(interval.end)
        return max(0, end - start)

    def present(self, interval: Interval) -> Iterator[KeyValue]:
        """The present versions of the keys in an interval, by key."""
        for key in self._keys(interval):
            newest = self._histories[key][-1]
            if newest.version:
                yield newest

    def at(self, interval: Interval, revision: int) -> Iterator[KeyValue]:
        """The versions that the keys in an interval had at a revision, by key."""
        for key in self._keys(interval):
            history = self._histories[key]
            index = bisect_right(history, revision, key=_mod_revision)
            if index and history[index - 1].version:
                yield history[index - 1]

    def _keys(self, interval: Interval) -> Iterator[bytes]:
        if interval.end is not None and interval.end <= interval.start:
            return iter(())
        keys: Iterator[bytes] = self._histories.irange(interval.start, interval.end, inclusive=(True, False))
        return keys

    def check_readable(self, revision: int) -> None:
        """Raises KvError if the state at a revision is not known yet, or no longer."""
        if revision > self.revision:
            raise KvError(*FUTURE_REVISION)
        if revision < self.compacted_revision:
            raise KvError(*COMPACTED)

    def changes(self, revision: int = 0, skipped: int = 0) -> Iterator[KeyValue]:
        """The changes from a revision (inclusive) on but the first `skipped`, in order.

        The store must not change meanwhile.
        """
        for index in range(bisect_left(self._changes, revision, key=_mod_revision) + skipped, len(self._changes)):
            yield self._changes[index]

    def count_changes(self, revision: int) -> int:
        """The number of changes from a revision (inclusive) on."""
        return len(self._changes) - bisect_left(self._changes, revision, key=_mod_revision)

    def before(self, kv: KeyValue) -> KeyValue | None:
        """The version that a change has replaced or deleted; None if there was none or it is compacted."""
        history = self._histories.get(kv.key, [])
        index = bisect_left(history, kv.mod_revision, key=_mod_revision)
        return history[index - 1] if index and history[index - 1].version else None

    def compact(self, revision: int) -> None:
        """Forget what was overwritten or deleted before a revision.  Raises KvError."""
        if revision <= self.compacted_revision:
            raise KvError(*COMPACTED)
        if revision > self.revision:
            raise KvError(*FUTURE_REVISION)
        self.compacted_revision = revision
        for kv in self._changes[: bisect_right(self._changes, revision, key=_mod_revision)]:
            self._compact_key(kv.key, revision)
        self._changes = [kv for kv in self._changes if kv.mod_revision > revision or self._is_kept(kv)]
        self.value_bytes = sum(len(kv.key) + len(kv.value) for kv in self._changes)

    def _compact_key(self, key: bytes, revision: int) -> None:
        history = self._histories.get(key)
        if history is None:
            return
        newest = bisect_right(history, revision, key=_mod_revision) - 1
        if newest >= 0 and not history[newest].version and history[newest].mod_revision < revision:
            newest += 1
        del history[: max(newest, 0)]
        if not history:
            del self._histories[key]

    def _is_kept(self, kv: KeyValue) -> bool:
        history = self._histories.get(kv.key)
        return history is not None and history[0] is kv

    def restore(self, revision: int, compacted_revision: int, changes: Iterable[KeyValue]) -> None:
        """Fill the empty store with what `changes` has returned."""
        for kv in changes:
            self._add(kv)
        self.revision, self.compacted_revision = revision, compacted_revision
