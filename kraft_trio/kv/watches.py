"""The events of a watch: the store's changes from a revision on, in its range and not filtered out."""

from __future__ import annotations

from itertools import islice
from typing import Final

import attrs

from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.requests import FilterType, WatchCreateRequest
from kraft_trio.kv.responses import Event, EventType, KeyValue
from kraft_trio.kv.store import Store

EVENTS_AT_ONCE: Final = 1000
"""Most events in a message."""
BYTES_AT_ONCE: Final = 3 * 1024 * 1024 // 2
"""Most bytes of keys and values in a message, except that it has one event at least.  As JSON it has 2 MiB."""
CHANGES_AT_ONCE: Final = 2048
"""Changes that are looked at before others get a turn."""


@attrs.frozen
class Batch:
    """All events of one watch below `next_revision`, from which the watch continues.

    They are those of some revisions, in one part of limited size, or those of one revision in several such parts.
    """

    parts: tuple[tuple[Event, ...], ...]
    next_revision: int

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(event for part in self.parts for event in part)


class EventReader:
    """Reads the next batch of one watch, a piece in each turn of the event loop.  It is used once."""

    def __init__(self, watch: WatchCreateRequest, revision: int) -> None:
        """`revision` is the first one that is wanted."""
        self._watch = watch
        self._interval = Interval.of(watch.key, watch.range_end)
        self._revision = revision
        self._seen = 0
        """Changes of that revision that were looked at."""
        self._compacted = 0
        """Up to where the store was compacted when the first of them was looked at."""
        self._parts: list[tuple[Event, ...]] = []
        self._events: list[Event] = []
        """Those of the part that is not yet full."""
        self._whole = 0
        """How many of them belong to earlier revisions."""
        self._size = 0

    def is_compacted(self, store: Store) -> bool:
        """Whether the store has forgotten changes that were not looked at.

        Of the revision of a compaction it forgets those whose keys were deleted in it, so the others move up.
        """
        within = self._seen > 0 and self._compacted < store.compacted_revision == self._revision
        return self._revision < store.compacted_revision or within

    def cost(self, store: Store) -> int:
        """How many changes the next piece has."""
        return min(store.count_changes(self._revision) - self._seen, CHANGES_AT_ONCE)

    def read(self, store: Store) -> Batch | None:
        """Look at the next piece, which must not be compacted.  Returns the batch if it is whole."""
        looked_at = 0
        if not self._seen:
            self._compacted = store.compacted_revision
        for kv in islice(store.changes(self._revision, self._seen), CHANGES_AT_ONCE):
            looked_at += 1
            if kv.mod_revision > self._revision:
                if self._parts:
                    return self._batch(kv.mod_revision)
                self._revision, self._seen, self._whole = kv.mod_revision, 0, len(self._events)
                self._compacted = store.compacted_revision
            self._seen += 1
            if kv.key in self._interval and not _is_filtered(kv, self._watch):
                event = _event(store, kv, self._watch.prev_kv)
                if not self._has_room(event):
                    if self._whole:
                        del self._events[self._whole :]
                        return self._batch(self._revision)
                    self._end_part()
                self._events.append(event)
                self._size += event_bytes(event)
        if looked_at < CHANGES_AT_ONCE:
            return self._batch(max(self._revision, store.revision + 1))
        return None

    def _has_room(self, event: Event) -> bool:
        if not self._events:
            return True
        return len(self._events) < EVENTS_AT_ONCE and self._size + event_bytes(event) <= BYTES_AT_ONCE

    def _end_part(self) -> None:
        self._parts.append(tuple(self._events))
        self._events, self._size = [], 0

    def _batch(self, next_revision: int) -> Batch:
        if self._events:
            self._end_part()
        return Batch(tuple(self._parts), next_revision)


def next_events(store: Store, watch: WatchCreateRequest, revision: int) -> Batch:
    """The next events of a watch from `revision` (inclusive) on, which must not be compacted, in one turn."""
    reader = EventReader(watch, revision)
    while (batch := reader.read(store)) is None:
        pass
    return batch


def event_bytes(event: Event) -> int:
    """The size of the keys and values of an event."""
    return sum(len(kv.key) + len(kv.value) for kv in (event.kv, event.prev_kv) if kv is not None)


def _is_filtered(kv: KeyValue, watch: WatchCreateRequest) -> bool:
    return (FilterType.NOPUT if kv.version else FilterType.NODELETE) in watch.filters


def _event(store: Store, kv: KeyValue, with_previous: bool) -> Event:
    kind = EventType.PUT if kv.version else EventType.DELETE
    return Event(kind, kv, store.before(kv) if with_previous else None)
