"""tooz, OpenStack's coordination library, uses three nodes through its driver for etcd: groups and locks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.waiting import WAIT_SECONDS
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.kv_quorum import make_kv_quorum

coordination: Any = pytest.importorskip("tooz.coordination", reason="tooz is not installed (scripts/setup dev)")

pytestmark = pytest.mark.rotating(5, by_file=True)

LEASE_S = 3600
"""So that no lease ends, however busy the machine is."""


@pytest.fixture
def members(make_quorum: MakeQuorum) -> Iterator[list[Any]]:
    """A coordinator for each node, named after it."""
    kv = make_kv_quorum(make_quorum, is_steady=True)
    options = f"api_version=v3&timeout={WAIT_SECONDS:.0f}&lock_timeout={LEASE_S}&membership_timeout={LEASE_S}"
    made = [
        coordination.get_coordinator(f"etcd3+http://127.0.0.1:{port}?{options}", b"%d" % node_id)
        for node_id, port in kv.ports.items()
    ]
    for member in made:
        member.start(start_heart=False)
    yield made
    for member in made:
        member.stop()


def test_groups_have_the_same_members_everywhere(members: list[Any]) -> None:
    first, second, third = members
    first.create_group(b"group").get()
    with pytest.raises(coordination.GroupAlreadyExist):
        second.create_group(b"group").get()
    assert third.get_groups().get() == [b"group"]
    for number, member in enumerate(members):
        member.join_group(b"group", capabilities=b"%d" % number).get()
    with pytest.raises(coordination.MemberAlreadyExist):
        first.join_group(b"group").get()
    assert [set(member.get_members(b"group").get()) for member in members] == [{b"1", b"2", b"3"}] * 3
    second.update_capabilities(b"group", b"new").get()
    assert third.get_member_capabilities(b"group", b"2").get() == b"new"
    for member in members:
        member.heartbeat()
    second.leave_group(b"group").get()
    with pytest.raises(coordination.MemberNotJoined):
        second.leave_group(b"group").get()
    assert set(second.get_members(b"group").get()) == {b"1", b"3"}
    with pytest.raises(coordination.GroupNotEmpty):
        first.delete_group(b"group").get()
    for member in (first, third):
        member.leave_group(b"group").get()
    second.delete_group(b"group").get()
    with pytest.raises(coordination.GroupNotCreated):
        first.join_group(b"group").get()


def test_a_lock_has_one_owner_until_it_is_released(members: list[Any]) -> None:
    locks = [member.get_lock(b"lock") for member in members]
    for owner in locks:
        assert owner.acquire(blocking=False)
        assert [lock.acquire(blocking=False) for lock in locks if lock is not owner] == [False, False]
        assert owner.heartbeat()
        assert [lock.acquired for lock in locks] == [lock is owner for lock in locks]
        assert owner.release()
    assert [lock.release() for lock in locks] == [False] * 3
