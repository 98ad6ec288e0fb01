"""What the log and DescribeQuorum say of the quorum: the first batch of an epoch, voters, observers, static voters."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
import trio
import trio.testing

from kraft_trio.node import Node
from kraft_trio.protocol.roles import Follower, Resigned
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.storage.batches.batch import decode_control_batch
from kraft_trio.storage.batches.control_records import KRaftVersion, LeaderChange, VotersRecord
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, STRANGER, TOPIC, RawClient
from tests.support.timing import set_timing


def control_batches(node: Node) -> list[list[object]]:
    return [
        [record for _, record in decode_control_batch(batch, 0, header)]
        for header, batch in node.log.iter_batches(0, node.log.end_offset)
        if header.is_control
    ]


@on_cluster()
async def test_the_very_first_batch_brings_version_and_voters(cluster: Cluster) -> None:
    """From the bootstrap checkpoint into the log, once; later epochs begin with the LeaderChange alone."""
    for _ in range(2):
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        cluster.machines[leader.key.id].crash("all")
        await cluster.machines[leader.key.id].start()
        leader = await cluster.wait_for_leader(other_than=leader)
    await cluster.wait_until_alike()
    first, *later = control_batches(leader)
    assert [type(record) for record in first] == [LeaderChange, KRaftVersion, VotersRecord]
    assert first[1:] == [KRaftVersion(1), VotersRecord(cluster.initial_voters)]
    assert len(later) >= 2
    assert [[type(record) for record in batch] for batch in later] == [[LeaderChange]] * len(later)


@on_cluster(voters=2)
async def test_the_leader_change_names_leader_voters_and_who_granted(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    change = control_batches(leader)[0][0]
    assert change == LeaderChange(leader_id=leader.key.id, voter_ids=(1, 2), granting_voter_ids=(1, 2))


@on_cluster(observers=1)
async def test_the_leader_describes_the_quorum_through_any_node(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    await cluster.wait_until_alike()
    cluster.machines[cluster.others(leader)[0].key.id].kill()
    await trio.sleep(1.2)
    set_timing(cluster)
    answers = {}
    for node_id in cluster.nodes:
        async with RawClient.connected(cluster, node_id) as client:
            answers[node_id] = await client.describe()
    now = 1_700_000_000_000 + round(trio.current_time() * 1000)
    for answer in answers.values():
        assert (answer.error, answer.partition_error) == (ErrorCode.none, ErrorCode.none)
        assert (answer.leader_id, answer.leader_epoch) == (leader.key.id, leader.view.epoch)
        assert answer.high_watermark == leader.high_watermark == leader.log.end_offset
        assert [voter.key for voter in answer.voters] == [cluster.key_of(id) for id in cluster.voter_ids]
        assert {replica.log_end_offset for replica in answer.voters} == {leader.log.end_offset}
        assert [observer.key for observer in answer.observers] == [cluster.key_of(4)]
        assert {node.id: node.endpoints.get(LISTENER) for node in answer.nodes} == {
            id: cluster.endpoint_of(id) for id in (*cluster.voter_ids, 4)
        }
        for replica in (*answer.voters, *answer.observers):
            age_ms = now - replica.last_fetch_timestamp_ms
            if replica.key == leader.key:
                assert age_ms == 0
            elif replica.key.id in cluster.nodes:
                assert 0 <= age_ms <= 500
            else:
                assert 1200 <= age_ms <= 1700
            assert 0 <= replica.last_caught_up_timestamp_ms <= now


@on_cluster(invariants=FORGED)
async def test_another_disk_with_the_leaders_id_is_an_observer(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    other = ReplicaKey(leader.key.id, UUID(int=77))
    async with RawClient.connected(cluster, leader.key.id) as client:
        await client.fetch(0, epoch=1, last_fetched_epoch=0, replica=other)
        described = await client.describe()
    assert [(observer.key, observer.log_end_offset) for observer in described.observers] == [(other, 0)]
    assert {voter.key: voter.log_end_offset for voter in described.voters}[leader.key] == leader.log.end_offset


@on_cluster()
async def test_a_leader_describes_itself_by_what_it_has_synced(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        end = leader.log.end_offset
        cluster.machines[leader.key.id].disk.sync_latency = lambda: 1.0
        nursery.start_soon(leader.append, [b"value"])
        await cluster.wait_until(lambda: leader.log.end_offset == end + 1)
        async with RawClient.connected(cluster, leader.key.id) as client:
            described = await client.describe()
        (own,) = [voter for voter in described.voters if voter.key == leader.key]
        assert own.log_end_offset == end


@on_cluster(started=(1,))
async def test_without_a_leader_nobody_describes_the_quorum(cluster: Cluster) -> None:
    async with RawClient.connected(cluster, 1) as client:
        assert (await client.describe()).partition_error == ErrorCode.not_leader_or_follower


@on_cluster(voters=1)
async def test_lost_observers_are_forgotten_after_five_minutes(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        await client.fetch(0, epoch=leader.view.epoch, last_fetched_epoch=0, replica=STRANGER)
        await trio.sleep(299)
        assert [observer.key for observer in (await client.describe()).observers] == [STRANGER]
        await trio.sleep(2)
        assert (await client.describe()).observers == ()


@pytest.mark.parametrize("observes", [False, True], ids=["voters only", "with an observer"])
@on_cluster(observers=1, kraft_version=0, started=(1, 2, 3))
async def test_static_voters_elect_and_restart(cluster: Cluster, observes: bool) -> None:
    """kraft.version 0: no voters in the log, quorum-state in version 0, keys without directory ids."""
    if observes:
        await cluster.machines[4].start()
    old = await cluster.wait_for_leader()
    await old.append([b"one"])
    await cluster.wait_until_alike()
    assert [[type(record) for record in batch] for batch in control_batches(old)] == [[LeaderChange]]
    state = json.loads(cluster.machines[old.key.id].disk.read_bytes(f"/data/{TOPIC}-0/quorum-state").splitlines()[0])
    assert (state["data_version"], state["leaderId"]) == (0, old.key.id)
    assert state["currentVoters"] == [{"voterId": id} for id in cluster.voter_ids]
    async with RawClient.connected(cluster, old.key.id) as client:
        described = await client.describe()
    assert [voter.key for voter in described.voters] == [ReplicaKey(id) for id in cluster.voter_ids]
    assert [observer.key.id for observer in described.observers] == ([4] if observes else [])

    cluster.machines[old.key.id].crash("all")
    new = await cluster.wait_for_leader(other_than=old)
    await new.append([b"two"])
    restarted = await cluster.machines[old.key.id].start()
    assert isinstance(restarted.view.role, Resigned)
    await restarted.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    await cluster.wait_until_alike()
    assert values_in(restarted) == [b"one", b"two"]
