"""Catching up takes several responses, without splitting a revision and without losing an event."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kraft_trio.kv import KvMachine, watches
from kraft_trio.kv.requests import DeleteRangeRequest, PutRequest, WatchCreateRequest
from kraft_trio.kv.watches import next_events
from tests.kv.machines import execute


@pytest.mark.parametrize(("events_at_once", "changes_at_once"), [(3, 100), (100, 3), (1, 1)])
def test_catching_up_splits_no_revision(
    monkeypatch: pytest.MonkeyPatch, events_at_once: int, changes_at_once: int
) -> None:
    monkeypatch.setattr(watches, "EVENTS_AT_ONCE", events_at_once)
    monkeypatch.setattr(watches, "CHANGES_AT_ONCE", changes_at_once)
    machine = KvMachine()
    for number in range(5):
        execute(machine, PutRequest(b"k%d" % number))
        execute(machine, PutRequest(b"other"))
    execute(machine, DeleteRangeRequest(b"k", b"l"))
    execute(machine, PutRequest(b"k"))

    watch = WatchCreateRequest(b"k", b"l")
    batches, revision = [], 2
    while revision <= machine.store.revision:
        batch = next_events(machine.store, watch, revision)
        assert batch.next_revision > revision
        batches.append([event.kv.mod_revision for event in batch.events if event.kv])
        revision = batch.next_revision
    assert [one for batch in batches for one in batch] == [2, 4, 6, 8, 10, 12, 12, 12, 12, 12, 13]
    assert len(batches) == {3: 4, 100: 1, 1: 7}[events_at_once]
    for earlier, later in pairwise(batches):
        assert not set(earlier) & set(later), "a revision is split"


def test_a_watch_of_the_future_waits_for_its_revision() -> None:
    machine = KvMachine()
    watch = WatchCreateRequest(b"k")
    revision = 4
    for _ in range(3):
        execute(machine, PutRequest(b"k"))
        batch = next_events(machine.store, watch, revision)
        revision = batch.next_revision
    assert [event.kv.mod_revision for event in batch.events if event.kv] == [4]
