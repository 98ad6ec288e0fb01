"""The events of a watch: the store's changes from a revision on, in its range and not filtered out."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.requests import FilterType, WatchCreateRequest
from kraft_trio.kv.responses import Event, EventType, KeyValue
from kraft_trio.kv.store import Store

EVENTS_AT_ONCE: Final = 1000
"""Most events in a response, except that events of one revision stay together."""
CHANGES_AT_ONCE: Final = 10_000
"""Changes that are looked at before others get a turn."""


@attrs.frozen
class Batch:
    """Events of one watch, all with revisions below `next_revision`, from which the watch goes on."""

    events: tuple[Event, ...]
    next_revision: int


def next_events(store: Store, watch: WatchCreateRequest, revision: int) -> Batch:
    """The next events of a watch from `revision` (inclusive) on, which must not be compacted."""
    interval = Interval.of(watch.key, watch.range_end)
    events: list[Event] = []
    last = revision - 1
    for seen, kv in enumerate(store.changes(revision)):
        if kv.mod_revision != last and (len(events) >= EVENTS_AT_ONCE or seen >= CHANGES_AT_ONCE):
            return Batch(tuple(events), kv.mod_revision)
        last = kv.mod_revision
        if kv.key in interval and not _is_filtered(kv, watch):
            events.append(_event(store, kv, watch.prev_kv))
    return Batch(tuple(events), max(revision, store.revision + 1))


def _is_filtered(kv: KeyValue, watch: WatchCreateRequest) -> bool:
    return (FilterType.NOPUT if kv.version else FilterType.NODELETE) in watch.filters


def _event(store: Store, kv: KeyValue, with_previous: bool) -> Event:
    kind = EventType.PUT if kv.version else EventType.DELETE
    return Event(kind, kv, store.before(kv) if with_previous else None)
