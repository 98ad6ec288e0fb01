"""Leases end by the time in the log: never early, in the same order everywhere, and as one revision each."""

from __future__ import annotations

import pytest

from kraft_trio.kv import KvError, KvMachine
from kraft_trio.kv.leases import MAX_STEP_MS
from kraft_trio.kv.requests import (
    Advance,
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseRevokeRequest,
    PutRequest,
    RequestOp,
    TxnRequest,
)
from kraft_trio.kv.responses import LeaseGrantResponse, LeaseKeepAliveResponse
from tests.kv.machines import execute, reloaded, saved


@pytest.fixture
def machine() -> KvMachine:
    made = KvMachine()
    for lease, ttl in ((1, 10), (2, 5)):
        execute(made, LeaseGrantRequest(ttl, lease))
        execute(made, PutRequest(b"a%d" % lease, lease=lease))
        execute(made, PutRequest(b"b%d" % lease, lease=lease))
    return made


def leases(machine: KvMachine) -> list[int]:
    return [lease.id for lease in machine.leases]


def test_time_counts_from_the_next_advance(machine: KvMachine) -> None:
    execute(machine, Advance(1_000_000))
    execute(machine, Advance(1_004_999))
    assert leases(machine) == [1, 2]
    execute(machine, Advance(1_005_000))
    assert leases(machine) == [1]


def test_time_does_not_go_back(machine: KvMachine) -> None:
    execute(machine, Advance(8000))
    execute(machine, Advance(2000))
    execute(machine, Advance(12_000))
    assert leases(machine) == [1, 2]


async def test_a_false_time_leaves_a_state_that_can_be_saved_and_goes_on(machine: KvMachine) -> None:
    """A leader steps ahead by a second at most, but any client of the topic can write such a record."""
    execute(machine, Advance(2**64 - 1))
    execute(machine, LeaseGrantRequest(10, 3))
    execute(machine, Advance(2**64 - 1))
    assert leases(machine) == [3]
    now_ms = (await reloaded(machine)).leases.now_ms
    assert now_ms == machine.leases.now_ms == 2 * MAX_STEP_MS
    execute(machine, Advance(now_ms + 10_000))
    assert leases(machine) == []


def test_a_renewal_gives_the_whole_time(machine: KvMachine) -> None:
    execute(machine, Advance(0))
    execute(machine, Advance(4900))
    renewed = execute(machine, LeaseKeepAliveRequest(2))
    assert isinstance(renewed, LeaseKeepAliveResponse)
    assert renewed.ttl == 5
    execute(machine, Advance(5500))
    execute(machine, Advance(10_400))
    assert leases(machine) == [2]
    execute(machine, Advance(10_500))
    assert leases(machine) == []


def test_each_lease_ends_as_one_revision(machine: KvMachine) -> None:
    execute(machine, Advance(0))
    execute(machine, Advance(10_000))
    assert [(kv.key, kv.mod_revision) for kv in machine.store.changes(6)] == [
        (b"a2", 6),
        (b"b2", 6),
        (b"a1", 7),
        (b"b1", 7),
    ]


def test_a_key_has_the_lease_of_its_last_put(machine: KvMachine) -> None:
    execute(machine, PutRequest(b"a1", lease=2))
    execute(machine, PutRequest(b"b1"))
    execute(machine, PutRequest(b"b2", ignore_lease=True, value=b"v"))
    assert {lease.id: lease.keys for lease in machine.leases} == {1: set(), 2: {b"a1", b"a2", b"b2"}}
    execute(machine, LeaseRevokeRequest(2))
    assert machine.store.get(b"b1")
    assert not machine.store.get(b"a1")


async def test_a_snapshot_keeps_the_time_of_each_lease(machine: KvMachine) -> None:
    execute(machine, Advance(100))
    execute(machine, LeaseKeepAliveRequest(1))
    other = await reloaded(machine)
    for now_ms in range(1000, 16_000, 500):
        for one in (machine, other):
            execute(one, Advance(now_ms))
        assert saved(other) == saved(machine)
    assert leases(machine) == []


def test_a_transaction_with_a_lease_that_is_gone_changes_nothing(machine: KvMachine) -> None:
    before = saved(machine)
    puts = (RequestOp(request_put=PutRequest(b"c")), RequestOp(request_put=PutRequest(b"d", lease=9)))
    with pytest.raises(KvError, match="requested lease not found"):
        execute(machine, TxnRequest(success=puts))
    assert saved(machine) == before


def test_short_times_are_raised_and_long_ones_refused(machine: KvMachine) -> None:
    granted = execute(machine, LeaseGrantRequest(1, 3))
    assert isinstance(granted, LeaseGrantResponse)
    assert granted.ttl == 2
    for ttl, lease in ((9_000_000_001, 4), (5, 3), (5, 0)):
        with pytest.raises(KvError):
            execute(machine, LeaseGrantRequest(ttl, lease))


def test_a_snapshot_keeps_the_leases_of_its_time(machine: KvMachine) -> None:
    """It copies only a list of them: a copy of each would take long."""
    execute(machine, Advance(1))
    expected = saved(machine)
    first, *_ = kept = list(machine.leases)
    records = machine.save()
    execute(machine, LeaseKeepAliveRequest(1))
    execute(machine, Advance(2))
    execute(machine, LeaseRevokeRequest(2))
    assert [record.value for record in records] == expected
    assert first.ends_ms == kept[0].ends_ms == 10_001
    assert [lease.ends_ms for lease in machine.leases] == [10_002]
