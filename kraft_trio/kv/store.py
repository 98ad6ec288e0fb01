"""Keys and all their versions since the last compaction.

Each change has a revision, which counts up from 2; the changes of one transaction share it.  A version is never changed
once it is written, so that readers and snapshots may keep it.

A large change is made in pieces, and others run between them: they see the store as it was before `begin` until
`commit`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import Final

from sortedcontainers import SortedDict, SortedList

from kraft_trio.kv.budget import KEY_BYTES_PER_PIECE, KEYS_PER_PIECE, Budget, Steps, version_bytes
from kraft_trio.kv.errors import COMPACTED, FUTURE_REVISION, KvError
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.responses import KeyValue

FIRST_REVISION: Final = 1
"""The revision of the empty store."""

_NEVER: Final = 2**63
"""A revision that no store reaches."""
_mod_revision = attrgetter("mod_revision")


class Overtaken(Exception):
    """A compaction has removed what a reader was still reading, between two pieces."""


class Store:
    """Owns the versions.  `put` and `delete` belong to the transaction that `begin` has opened.

    Where a method takes a revision, None means the newest state, with the changes of the open transaction.
    """

    def __init__(self) -> None:
        self.revision = FIRST_REVISION
        """The revision of the newest change that is committed."""
        self.compacted_revision = 0
        """Earlier states cannot be read any more; the state at this revision can."""
        self.size_in_bytes = 0
        """Of all keys and values, old versions included, with VERSION_BYTES for each version."""
        self._histories: SortedDict[bytes, list[KeyValue]] = SortedDict()
        self._live: SortedList[bytes] = SortedList()
        """The keys whose newest version is no deletion."""
        self._changes: list[KeyValue] = []
        self._committed = 0
        """How many of the changes are committed."""

    # Changing

    def begin(self) -> None:
        """Begin a transaction: its first change makes a new revision, and the others belong to it."""
        assert not self._is_open, "one transaction at a time"

    def put(self, key: bytes, value: bytes, lease: int) -> KeyValue | None:
        """Set a key, and return its previous version."""
        previous = self.at(key, None)
        revision = self.revision + 1
        if previous is None:
            self._live.add(key)
            self._add(KeyValue(key, revision, revision, 1, value, lease))
        else:
            self._add(KeyValue(key, previous.create_revision, revision, previous.version + 1, value, lease))
        return previous

    def delete(self, key: bytes) -> None:
        """Delete a key, which must exist."""
        self._live.remove(key)
        self._add(KeyValue(key, mod_revision=self.revision + 1))

    def commit(self) -> None:
        """Let others see the changes since `begin`."""
        if self._is_open:
            self.revision += 1
            self._committed = len(self._changes)

    def rollback(self) -> Steps[None]:
        """Undo the changes since `begin`."""
        while self._is_open:
            for _ in range(min(KEYS_PER_PIECE, len(self._changes) - self._committed)):
                self._undo(self._changes.pop())
            yield

    def _undo(self, kv: KeyValue) -> None:
        self.size_in_bytes -= version_bytes(kv)
        history = self._histories[kv.key]
        history.pop()
        if not kv.version:
            self._live.add(kv.key)
        elif kv.version == 1:
            self._live.remove(kv.key)
        if not history:
            del self._histories[kv.key]

    def _add(self, kv: KeyValue) -> None:
        self._changes.append(kv)
        history = self._histories.get(kv.key)
        if history is None:
            self._histories[kv.key] = [kv]
        else:
            history.append(kv)
        self.size_in_bytes += version_bytes(kv)

    @property
    def _is_open(self) -> bool:
        """Whether there are changes that are not committed."""
        return len(self._changes) > self._committed

    # Reading

    @property
    def newest_revision(self) -> int:
        """The revision with the changes of the open transaction."""
        return self.revision + self._is_open

    @property
    def versions(self) -> int:
        """The number of all versions that are kept."""
        return len(self._changes)

    def get(self, key: bytes) -> KeyValue | None:
        """The present version of a key."""
        return self.at(key, self.revision)

    def at(self, key: bytes, revision: int | None) -> KeyValue | None:
        """The version that a key has at a revision."""
        history = self._histories.get(key)
        return None if history is None else _version_at(history, revision)

    def is_newest(self, revision: int | None) -> bool:
        """Whether nothing has changed since that revision, so that `count` counts its keys."""
        return revision is None or revision == self.newest_revision

    def count(self, interval: Interval) -> int:
        """The number of keys in an interval in the newest state, without looking at each."""
        start: int = self._live.bisect_left(interval.start)
        end: int = len(self._live) if interval.end is None else self._live.bisect_left(interval.end)
        return max(0, end - start)

    def pieces(
        self,
        interval: Interval,
        revision: int | None,
        budget: Budget,
        *,
        descending: bool = False,
        size: int = KEYS_PER_PIECE,
    ) -> Iterator[list[KeyValue]]:
        """The versions that the keys in an interval have at a revision, by key.

        A piece looks at `size` keys, or fewer that are long.  Keys without a version at the revision count, too.  The
        store may change between two pieces.  Raises KvError and Overtaken.
        """
        start, end = interval.start, interval.end
        has_more = True
        while has_more and (end is None or start < end):
            if revision is not None and revision < self.compacted_revision:
                raise Overtaken
            keys = self._live if self.is_newest(revision) else self._histories
            found: Iterator[bytes] = keys.irange(start, end, inclusive=(True, False), reverse=descending)
            all_found = list(islice(found, size))
            piece = _few_bytes(all_found)
            has_more = len(all_found) == size or len(piece) < len(all_found)
            budget.look_at(piece)
            if piece and descending:
                end = piece[-1]
            elif piece:
                start = piece[-1] + b"\0"
            versions = (_version_at(self._histories[key], revision) for key in piece)
            yield [kv for kv in versions if kv is not None]

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
        for index in range(self._index_of(revision) + skipped, self._committed):
            yield self._changes[index]

    def count_changes(self, revision: int) -> int:
        """The number of changes from a revision (inclusive) on."""
        return self._committed - self._index_of(revision)

    def _index_of(self, revision: int) -> int:
        return bisect_left(self._changes, revision, hi=self._committed, key=_mod_revision)

    def before(self, kv: KeyValue) -> KeyValue | None:
        """The version that a change has replaced or deleted; None if there was none or it is compacted."""
        history = self._histories.get(kv.key, [])
        index = bisect_left(history, kv.mod_revision, key=_mod_revision)
        return history[index - 1] if index and history[index - 1].version else None

    # Compacting, and loading

    def compact(self, revision: int) -> Steps[None]:
        """Forget what was overwritten or deleted before a revision, in pieces.  Raises KvError."""
        if revision <= self.compacted_revision:
            raise KvError(*COMPACTED)
        if revision > self.revision:
            raise KvError(*FUTURE_REVISION)
        self.compacted_revision = revision
        end = bisect_right(self._changes, revision, key=_mod_revision)
        kept: list[KeyValue] = []
        for start in range(0, end, KEYS_PER_PIECE):
            for kv in self._changes[start : min(start + KEYS_PER_PIECE, end)]:
                if self._is_kept(kv, revision):
                    kept.append(kv)
                else:
                    self.size_in_bytes -= version_bytes(kv)
            yield
        kept += self._changes[end:]
        forgotten, self._changes = self._changes, kept
        self._committed = len(kept)
        while forgotten:  # to free many versions takes a while, too
            del forgotten[-KEYS_PER_PIECE:]
            yield

    def forget(self) -> Steps[None]:
        """Free everything, in pieces, once another store is in the place of this one.  Who still reads is overtaken."""
        self.compacted_revision = _NEVER
        while self._histories:
            for _ in range(min(KEYS_PER_PIECE, len(self._histories))):
                self._histories.popitem()
            yield
        while self._changes:
            del self._changes[-KEYS_PER_PIECE:]
            self._committed = len(self._changes)
            yield

    def _is_kept(self, kv: KeyValue, revision: int) -> bool:
        """Whether a version of up to that revision can still be read; if not, forget it."""
        history = self._histories.get(kv.key)
        if history is None:
            return False
        if len(history) > 1 and history[1].mod_revision <= revision:
            del history[: bisect_right(history, revision, key=_mod_revision) - 1]
        oldest = history[0]
        if not oldest.version and oldest.mod_revision < revision:
            del history[0]
            if not history:
                del self._histories[kv.key]
            return False
        return oldest is kv

    def all_changes(self) -> list[KeyValue]:
        """A copy of all versions that are kept, in the order of their changes."""
        return self._changes[: self._committed]

    def restore(self, kv: KeyValue) -> KeyValue | None:
        """Add the next of what `all_changes` has returned, and return what it has replaced."""
        previous = self.at(kv.key, None)
        if not kv.version:
            self._live.discard(kv.key)
        elif previous is None:
            self._live.add(kv.key)
        self._add(kv)
        return previous

    def restored(self, revision: int, compacted_revision: int) -> None:
        """Note that all versions were restored."""
        self.revision, self.compacted_revision, self._committed = revision, compacted_revision, len(self._changes)


def _few_bytes(keys: list[bytes]) -> list[bytes]:
    """The first of these keys, which have few bytes together; at least one."""
    room = KEY_BYTES_PER_PIECE
    if sum(map(len, keys)) <= room:
        return keys
    few: list[bytes] = []
    for key in keys:
        room -= len(key)
        if few and room < 0:
            break
        few.append(key)
    return few


def _version_at(history: list[KeyValue], revision: int | None) -> KeyValue | None:
    newest = history[-1]
    if revision is not None and newest.mod_revision > revision:
        index = bisect_right(history, revision, key=_mod_revision)
        if not index:
            return None
        newest = history[index - 1]
    return newest if newest.version else None
