"""The quota of the store: all replicas refuse the same commands, even if the nodes are configured differently."""

from __future__ import annotations

import pytest
import trio

from kraft_trio.kv import KvError, KvMachine
from kraft_trio.kv.budget import VERSION_BYTES
from kraft_trio.kv.gateway.upkeep import QUOTA_EVERY_S
from kraft_trio.kv.machine import MAX_MEMBER_CHARACTERS, MAX_MEMBERS
from kraft_trio.kv.requests import (
    AlarmAction,
    AlarmRequest,
    AlarmType,
    AnnounceMember,
    Command,
    CompactionRequest,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseRevokeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    SetQuota,
    TxnRequest,
)
from kraft_trio.kv.responses import AlarmResponse
from kraft_trio.kv.space import LEASE_COST
from kraft_trio.simulation import Cluster
from tests.kv.gateways import b64, gateways, kv_setup
from tests.kv.machines import execute, reloaded, saved
from tests.support.on_cluster import on_cluster

ROOM = 10 * VERSION_BYTES
DISARM = AlarmRequest(AlarmAction.DEACTIVATE, alarm=AlarmType.NOSPACE)
PUT = PutRequest(b"k")
TXN = TxnRequest((), (), (RequestOp(request_txn=TxnRequest((), (RequestOp(request_put=PUT),))),))


def limited(room: int = ROOM) -> KvMachine:
    """A machine that has a key and a lease, and may take so many bytes more."""
    machine = KvMachine()
    execute(machine, LeaseGrantRequest(60, 1))
    execute(machine, PutRequest(b"old"))
    execute(machine, SetQuota(machine.size_in_bytes + room))
    return machine


def is_full(machine: KvMachine) -> bool:
    result = execute(machine, AlarmRequest())
    assert isinstance(result, AlarmResponse)
    return [alarm.alarm for alarm in result.alarms] == [AlarmType.NOSPACE]


def test_a_put_that_fits_exactly_is_taken_and_no_more() -> None:
    machine = limited()
    execute(machine, PutRequest(b"k", bytes(ROOM - VERSION_BYTES - 1)))
    assert not is_full(machine)
    with pytest.raises(KvError, match="database space exceeded"):
        execute(machine, PUT)
    assert is_full(machine)
    assert machine.store.revision == 3


@pytest.mark.parametrize("command", [PUT, TXN, LeaseGrantRequest(60, 7)])
def test_what_needs_space_is_refused_while_there_is_an_alarm(command: Command) -> None:
    machine = limited()
    execute(machine, AlarmRequest(AlarmAction.ACTIVATE, alarm=AlarmType.NOSPACE))
    before = saved(machine)
    with pytest.raises(KvError, match="database space exceeded"):
        execute(machine, command)
    assert saved(machine) == before
    execute(machine, DISARM)
    assert execute(machine, command)


def test_reads_deletions_and_compactions_go_on_and_make_room() -> None:
    machine = limited()
    with pytest.raises(KvError):
        execute(machine, PutRequest(b"k", bytes(ROOM)))
    used = machine.size_in_bytes
    execute(machine, TxnRequest((), (RequestOp(request_range=RangeRequest(b"old")),)))
    execute(machine, DeleteRangeRequest(b"old"))
    execute(machine, LeaseRevokeRequest(1))
    execute(machine, DISARM)
    execute(machine, PutRequest(b"new"))
    execute(machine, CompactionRequest(machine.store.revision))
    assert machine.size_in_bytes == used - LEASE_COST  # a key of the same length, and no lease
    assert not is_full(machine)
    execute(machine, PutRequest(b"k", bytes(ROOM - VERSION_BYTES - 1)))


def test_without_a_quota_nothing_is_refused() -> None:
    machine = limited()
    execute(machine, SetQuota(0))
    execute(machine, PutRequest(b"k", bytes(ROOM)))
    assert not is_full(machine)


def test_snapshots_have_the_quota_and_the_alarm() -> None:
    machine = limited()
    with pytest.raises(KvError):
        execute(machine, PutRequest(b"k", bytes(ROOM)))
    other = trio.run(reloaded, machine)
    assert saved(other) == saved(machine)
    assert is_full(other)
    execute(other, DISARM)
    with pytest.raises(KvError):
        execute(other, PutRequest(b"k", bytes(ROOM)))


def test_the_size_is_that_of_all_versions_whatever_happened() -> None:
    machine = limited(10**6)
    for _ in range(3):
        execute(machine, PutRequest(b"old", b"12345"))
    with pytest.raises(KvError):
        execute(machine, TxnRequest((), (RequestOp(request_put=PUT), RequestOp(request_put=PutRequest(b"l", lease=9)))))
    assert machine.size_in_bytes == LEASE_COST + 4 * (VERSION_BYTES + 3) + 15
    execute(machine, CompactionRequest(machine.store.revision))
    assert machine.size_in_bytes == LEASE_COST + VERSION_BYTES + 8
    assert trio.run(reloaded, machine).size_in_bytes == machine.size_in_bytes


@on_cluster(**kv_setup())
async def test_the_leaders_quota_is_in_force_on_all_nodes(cluster: Cluster) -> None:
    """Each node has another one in its configuration."""
    leader = await cluster.wait_for_leader()
    quotas = {node_id: 50_000 + 10_000 * node_id for node_id in cluster.nodes}
    async with gateways(cluster, quotas=quotas) as serving:
        for turn in range(2):
            leader = await cluster.wait_for_leader()
            quota = quotas[leader.key.id]
            client = serving.clients[cluster.others(leader)[0].key.id]
            status, _ = await client.post("/v3/kv/put", {"key": b64("k"), "value": b64(bytes(quota))})
            assert status == 429
            _, answer = await client.post("/v3/maintenance/status")
            assert (answer["dbSizeQuota"], answer["errors"]) == (str(quota), ["alarm:NOSPACE"])
            _, answer = await client.post("/v3/maintenance/alarm", {"action": "GET"})
            assert answer["alarms"] == [{"alarm": "NOSPACE"}]
            status, _ = await client.raw("/health", None, method="GET")
            assert status == 503
            status, answer = await client.post("/v3/maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE"})
            assert (status, answer["alarms"]) == (200, [{"alarm": "NOSPACE"}])
            status, _ = await client.post("/v3/kv/put", {"key": b64("k"), "value": b64(bytes(quota // 4))})
            assert status == 200
            if not turn:
                await leader.resign()
                await cluster.wait_until_alike()
        machines = [service.machine for service in serving.services.values()]
        await cluster.wait_until_alike()
        assert len({machine.space.quota_bytes for machine in machines}) == 1
        assert len({tuple(saved(machine)) for machine in machines}) == 1


@on_cluster(**kv_setup())
async def test_a_quota_that_a_client_of_the_topic_has_set_does_not_last(cluster: Cluster) -> None:
    """Else the alarm that it raises could not be disarmed before another node leads."""
    leader = await cluster.wait_for_leader()
    async with gateways(cluster) as serving:
        client = serving.clients[leader.key.id]
        await leader.append([SetQuota(1)])
        assert (await client.post("/v3/kv/put", {"key": b64("k")}))[0] == 429
        await trio.sleep(QUOTA_EVERY_S + 1)
        await client.post("/v3/maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE"})
        assert (await client.post("/v3/kv/put", {"key": b64("k")}))[0] == 200


@on_cluster(**kv_setup(voters=1))
async def test_only_the_alarm_nospace_can_be_raised(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        status, answer = await serving.clients[1].post(
            "/v3/maintenance/alarm", {"action": "ACTIVATE", "alarm": "CORRUPT"}
        )
        assert (status, answer["message"]) == (400, "alarm: CORRUPT given, NOSPACE expected")


def test_members_take_little_room() -> None:
    """A client of the topic may announce as many as it likes, and they are not counted."""
    machine = KvMachine()
    execute(machine, AnnounceMember(1, ("http://one",)))
    for number in range(2, MAX_MEMBERS + 100):
        execute(machine, AnnounceMember(number, ("u" * (MAX_MEMBER_CHARACTERS - 1),)))
    assert len(machine.members) == MAX_MEMBERS
    for urls in (("u" * MAX_MEMBER_CHARACTERS,), ("",) * (MAX_MEMBER_CHARACTERS + 1)):
        with pytest.raises(KvError, match="client_urls"):
            execute(machine, AnnounceMember(1, urls))
    assert machine.members[1] == ("http://one",)
    execute(machine, AnnounceMember(0, ("http://zero",)))
    assert machine.members[0] == ("http://zero",)
    assert saved(trio.run(reloaded, machine)) == saved(machine)
