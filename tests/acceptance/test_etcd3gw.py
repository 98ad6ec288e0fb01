"""etcd3gw, an ordinary client of etcd, uses three nodes unchanged: put, transaction, lease, watch, lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.waiting import WAIT_SECONDS, wait_until
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.kv_quorum import KvQuorum, make_kv_quorum

etcd3gw: Any = pytest.importorskip("etcd3gw", reason="etcd3gw is not installed (scripts/setup dev)")


@pytest.fixture(scope="module")
def kv(make_module_quorum: MakeQuorum) -> KvQuorum:
    return make_kv_quorum(make_module_quorum, is_steady=True)


@pytest.fixture
def clients(kv: KvQuorum) -> Iterator[list[Any]]:
    """One for each node."""
    made = [etcd3gw.client(host="127.0.0.1", port=port, timeout=WAIT_SECONDS) for port in kv.ports.values()]
    yield made
    for client in made:
        client.session.close()


def test_what_one_node_has_put_another_gets(clients: list[Any]) -> None:
    first, second, third = clients
    assert first.put("get/a", "1")
    assert second.get("get/a") == [b"1"]
    assert second.put("get/b", b"\x00\xff")
    assert [value for value, _ in third.get_prefix("get/")] == [b"1", b"\x00\xff"]
    assert third.delete("get/a")
    assert not first.delete("get/a")
    assert first.get("get/a") == []
    [(value, metadata)] = first.get("get/b", metadata=True)
    assert (value, metadata["version"], metadata["create_revision"]) == (b"\x00\xff", "1", metadata["mod_revision"])


def test_transactions_compare_before_they_change(clients: list[Any]) -> None:
    first, second, _ = clients
    assert first.create("txn/a", "1")
    assert not second.create("txn/a", "2")
    assert second.replace("txn/a", "1", "2")
    assert not first.replace("txn/a", "1", "3")
    assert first.get("txn/a") == [b"2"]


def test_keys_end_with_their_lease(clients: list[Any]) -> None:
    first, second, _ = clients
    lease = second.lease(ttl=600)
    assert second.put("lease/a", "1", lease)
    assert lease.keys() == [b"lease/a"]
    assert lease.refresh() == 600
    assert lease.revoke()
    assert first.get("lease/a") == []
    short = wait_until("a put comes before the end of its lease", lambda: _leased(first, "lease/b", ttl=2))
    wait_until("the lease ends", lambda: second.get("lease/b") == [])
    assert short.ttl() == short.refresh() == -1


def test_a_watch_sees_changes_made_on_another_node(clients: list[Any]) -> None:
    first, second, _ = clients
    events, cancel = first.watch_prefix("watch/")
    second.put("watch/a", "1")
    second.delete("watch/a")
    seen = [next(events) for _ in range(2)]
    cancel()
    assert [(event.get("type", "PUT"), event["kv"]["key"]) for event in seen] == [
        ("PUT", b"watch/a"),
        ("DELETE", b"watch/a"),
    ]
    assert seen[0]["kv"]["value"] == b"1"


def test_a_lock_has_one_owner_at_a_time(clients: list[Any]) -> None:
    counted, most = [0], [0]

    def work(client: Any) -> None:
        lock = client.lock(id="mutex", ttl=600)
        wait_until("the lock is free", lock.acquire)
        counted[0] += 1
        most[0] = max(most[0], counted[0])
        assert lock.is_acquired()
        counted[0] -= 1
        assert lock.release()

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_members_and_status(clients: list[Any], kv: KvQuorum) -> None:
    urls = {f"http://127.0.0.1:{port}" for port in kv.ports.values()}

    def announced() -> bool:
        return {url for member in clients[0].members() for url in member.get("clientURLs", [])} == urls

    wait_until("all members have announced their addresses", announced)
    leaders = {client.status()["leader"] for client in clients}
    assert leaders <= {member["ID"] for member in clients[0].members()}


@pytest.mark.rotating(5)
def test_it_goes_on_when_the_leader_is_killed(make_quorum: MakeQuorum) -> None:
    kv = make_kv_quorum(make_quorum)
    leader = kv.quorum.leader().id
    survivor = next(node_id for node_id in kv.ports if node_id != leader)
    client = etcd3gw.client(host="127.0.0.1", port=kv.ports[survivor], timeout=20)
    lease = client.lease(ttl=600)
    client.put("a", "1", lease)
    kv.quorum.nodes[leader].kill()
    wait_until("a put succeeds", lambda: _put(client))
    assert client.get("a") == [b"1"]
    assert lease.refresh() == 600
    kv.start(leader)
    other = etcd3gw.client(host="127.0.0.1", port=kv.ports[leader], timeout=20)
    assert (other.get("a"), other.get("b")) == ([b"1"], [b"2"])


def _leased(client: Any, key: str, ttl: int) -> Any | None:
    """The lease of a new key; None if it has ended before, as on a busy machine."""
    lease = client.lease(ttl=ttl)
    try:
        client.put(key, "1", lease)
    except etcd3gw.exceptions.Etcd3Exception:
        return None
    return lease


def _put(client: Any) -> bool:
    try:
        return bool(client.put("b", "2"))
    except etcd3gw.exceptions.Etcd3Exception:
        return False
