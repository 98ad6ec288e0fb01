"""Who waits for changes of some keys is woken by these alone."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
import trio.testing

from kraft_trio.actors.waiting.loop_turns import LoopTurns
from kraft_trio.kv import KvMachine
from kraft_trio.kv.gateway import change_waiters
from kraft_trio.kv.gateway.change_waiters import ChangeWaiters
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.requests import CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, PutRequest
from tests.kv.machines import execute


class Waiting:
    """A machine, and tasks that wait for its changes once."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.machine = KvMachine()
        self.changes = ChangeWaiters(self.machine)
        self.machine.on_change = self.changes.tell
        nursery.start_soon(self.changes.run)
        self.woken: dict[str, int] = {}
        """The revision that each was told."""
        self._nursery = nursery

    async def start(self, **intervals: Interval) -> None:
        for name, interval in intervals.items():
            self._nursery.start_soon(self._wait, name, interval)
        await trio.testing.wait_all_tasks_blocked()

    async def _wait(self, name: str, interval: Interval) -> None:
        self.woken[name] = await self.changes.wait(interval)

    async def took(self, *commands: object) -> dict[str, int]:
        """Execute commands, and return who was woken since the last call."""
        for command in commands:
            execute(self.machine, command)
        await trio.testing.wait_all_tasks_blocked()
        woken, self.woken = self.woken, {}
        return woken


def key(name: bytes) -> Interval:
    return Interval.of(name, b"")


async def test_a_change_wakes_those_whose_keys_it_touches(nursery: trio.Nursery) -> None:
    waiting = Waiting(nursery)
    await waiting.start(a=key(b"a"), b=key(b"b"), a_to_c=Interval(b"a", b"c"), c_on=Interval(b"c", None))
    assert await waiting.took(PutRequest(b"d0")) == {"c_on": 2}
    assert await waiting.took(PutRequest(b"b")) == {"b": 3, "a_to_c": 3}
    assert await waiting.took(PutRequest(b"b"), PutRequest(b"z")) == {}
    assert await waiting.took(PutRequest(b"a"), PutRequest(b"a")) == {"a": 6}
    assert len(waiting.changes) == 0


async def test_all_who_wait_for_a_key_are_woken(nursery: trio.Nursery) -> None:
    waiting = Waiting(nursery)
    await waiting.start(one=key(b"a"), other=key(b"a"))
    assert await waiting.took(PutRequest(b"a")) == {"one": 2, "other": 2}


async def test_a_deletion_of_several_keys_wakes_all_of_theirs(nursery: trio.Nursery) -> None:
    waiting = Waiting(nursery)
    await waiting.took(PutRequest(b"a"), PutRequest(b"b"))
    await waiting.start(a=key(b"a"), b=key(b"b"), c=key(b"c"))
    assert await waiting.took(DeleteRangeRequest(b"a", b"z")) == {"a": 4, "b": 4}
    nursery.cancel_scope.cancel()


async def test_what_changes_no_key_wakes_nobody(nursery: trio.Nursery) -> None:
    waiting = Waiting(nursery)
    await waiting.took(PutRequest(b"a"), PutRequest(b"a"))
    await waiting.start(all=Interval(b"\0", None))
    assert await waiting.took(LeaseGrantRequest(10, 1), CompactionRequest(3)) == {}
    assert await waiting.took(PutRequest(b"a")) == {"all": 4}


async def test_a_snapshot_wakes_all(nursery: trio.Nursery) -> None:
    """It may have any changes after the last one that was told."""
    waiting, other = Waiting(nursery), KvMachine()
    for _ in range(5):
        execute(other, PutRequest(b"a"))
    await waiting.took(PutRequest(b"a"))
    await waiting.start(a=key(b"a"), b_on=Interval(b"b", None))
    waiting.machine.store = other.store
    waiting.machine.on_change()
    assert await waiting.took() == {"a": 3, "b_on": 3}
    await waiting.start(a=key(b"a"))
    assert await waiting.took(PutRequest(b"a")) == {"a": 7}


@pytest.mark.parametrize("interval", [key(b"a"), Interval(b"a", b"c")])
async def test_who_stops_waiting_is_forgotten(nursery: trio.Nursery, interval: Interval) -> None:
    waiting = Waiting(nursery)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as others:
            others.start_soon(waiting.changes.wait, interval)
            await waiting.start(stays=interval)
            scope.cancel()
    assert len(waiting.changes) == 1
    assert await waiting.took(PutRequest(b"a")) == {"stays": 2}
    assert len(waiting.changes) == 0
    with trio.move_on_after(0):
        await waiting.changes.wait(interval)
    assert len(waiting.changes) == 0


async def test_many_changes_are_told_in_many_turns(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log may apply any number of them in one turn."""
    monkeypatch.setattr(change_waiters, "CHANGES_PER_TURN", 3)
    waiting = Waiting(nursery)
    await waiting.start(a=key(b"a"), all=Interval(b"a", None))
    for number in range(10):
        execute(waiting.machine, PutRequest(b"k%d" % number))
    execute(waiting.machine, PutRequest(b"a"))
    turns, told = LoopTurns.of_this_run(), list[tuple[int, int]]()
    look = waiting.changes._look_at_changes

    def looking() -> None:
        look()
        told.append((turns.number, waiting.changes.told_revision))

    monkeypatch.setattr(waiting.changes, "_look_at_changes", looking)
    await trio.testing.wait_all_tasks_blocked()
    assert [revision for _, revision in told] == [4, 7, 10, 12]
    assert len({number for number, _ in told}) == 4
    assert await waiting.took() == {"all": 2, "a": 12}


async def test_changes_within_a_revision_are_told_when_all_are(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_waiters, "CHANGES_PER_TURN", 3)
    waiting = Waiting(nursery)
    await waiting.took(*[PutRequest(b"k%d" % number) for number in range(5)])
    await waiting.start(last=key(b"k4"), other=key(b"other"))
    execute(waiting.machine, DeleteRangeRequest(b"k", b"l"))
    told = list[int]()
    look = waiting.changes._look_at_changes

    def looking() -> None:
        look()
        told.append(waiting.changes.told_revision)

    monkeypatch.setattr(waiting.changes, "_look_at_changes", looking)
    await trio.testing.wait_all_tasks_blocked()
    assert told == [6, 7]
    assert await waiting.took() == {"last": 7}
    nursery.cancel_scope.cancel()


async def test_many_who_wait_are_woken_in_many_turns(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_waiters, "WAKES_PER_TURN", 4)
    waiting, turns, woken = Waiting(nursery), LoopTurns.of_this_run(), Counter[int]()

    async def wait(interval: Interval) -> None:
        await waiting.changes.wait(interval)
        woken[turns.number] += 1

    for interval in [key(b"a")] * 10 + [Interval(b"a", bytes([98 + number])) for number in range(10)]:
        nursery.start_soon(wait, interval)
    await trio.testing.wait_all_tasks_blocked()
    assert await waiting.took(PutRequest(b"a")) == {}
    assert sum(woken.values()) == 20
    assert max(woken.values()) == 4
