"""What the log and DescribeQuorum say of the quorum: the first batch of an epoch, voters, observers, static voters."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing

from kraft_trio.node import Node
from kraft_trio.protocol.control_records import KRaftVersion, LeaderChange, VotersRecord
from kraft_trio.protocol.roles import Follower, Resigned
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.storage.batch import decode_control_batch
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.cluster import LISTENER, Cluster, endpoint_of, key_of, voters_of
from tests.support.raw_client import TOPIC, RawClient

Clock = trio.testing.MockClock


def control_batches(node: Node) -> list[list[object]]:
    return [
        [record for _, record in decode_control_batch(batch, 0, header)]
        for header, batch in node.log.iter_batches(0, node.log.end_offset)
        if header.is_control
    ]


async def test_the_very_first_batch_brings_version_and_voters(autojump_clock: Clock) -> None:
    """From the bootstrap checkpoint into the log, once; later epochs begin with the LeaderChange alone."""
    async with Cluster().running() as cluster:
        for _ in range(2):
            leader = await cluster.wait_for_leader()
            await cluster.wait_until_alike()
            await cluster.crash(leader.key.id)
            await cluster.restart(leader.key.id)
            leader = await cluster.wait_until_other_leads(leader)
        await cluster.wait_until_alike()
        first, *later = control_batches(leader)
        assert [type(record) for record in first] == [LeaderChange, KRaftVersion, VotersRecord]
        assert first[1:] == [KRaftVersion(1), VotersRecord(voters_of(cluster.voter_ids))]
        assert len(later) >= 2
        assert [[type(record) for record in batch] for batch in later] == [[LeaderChange]] * len(later)


async def test_the_leader_change_names_leader_voters_and_who_granted(autojump_clock: Clock) -> None:
    async with Cluster(voter_ids=(1, 2)).running() as cluster:
        leader = await cluster.wait_for_leader()
        change = control_batches(leader)[0][0]
        assert change == LeaderChange(leader_id=leader.key.id, voter_ids=(1, 2), granting_voter_ids=(1, 2))


async def test_the_quorum_is_described_by_the_leader_and_through_any_node(autojump_clock: Clock) -> None:
    async with Cluster().running(1, 2, 3, 4) as cluster:
        leader = await cluster.wait_for_leader()
        await leader.append([b"value"])
        await cluster.wait_until_alike()
        cluster.kill(cluster.others(leader)[0].key.id)
        await trio.sleep(1.2)
        answers = {}
        for node_id in cluster.nodes:
            async with RawClient.connected(cluster, node_id) as client:
                answers[node_id] = await client.describe()
        now = 1_700_000_000_000 + round(trio.current_time() * 1000)
        for answer in answers.values():
            assert (answer.error, answer.partition_error) == (ErrorCode.none, ErrorCode.none)
            assert (answer.leader_id, answer.leader_epoch) == (leader.key.id, leader.view.epoch)
            assert answer.high_watermark == leader.high_watermark == leader.log.end_offset
            assert [voter.key for voter in answer.voters] == [key_of(id) for id in cluster.voter_ids]
            assert {replica.log_end_offset for replica in answer.voters} == {leader.log.end_offset}
            assert [observer.key for observer in answer.observers] == [key_of(4)]
            assert {node.id: node.endpoints.get(LISTENER) for node in answer.nodes} == {
                id: endpoint_of(id) for id in cluster.voter_ids
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


async def test_a_leader_describes_itself_by_what_it_has_synced(autojump_clock: Clock) -> None:
    async with Cluster().running() as cluster, trio.open_nursery() as nursery:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        end = leader.log.end_offset
        cluster.disks[leader.key.id].sync_latency = lambda: 1.0
        nursery.start_soon(leader.append, [b"value"])
        await cluster.wait_until(lambda: leader.log.end_offset == end + 1)
        async with RawClient.connected(cluster, leader.key.id) as client:
            described = await client.describe()
        (own,) = [voter for voter in described.voters if voter.key == leader.key]
        assert own.log_end_offset == end


async def test_without_a_leader_nobody_describes_the_quorum(autojump_clock: Clock) -> None:
    async with Cluster().running(1) as cluster:
        async with RawClient.connected(cluster, 1) as client:
            assert (await client.describe()).partition_error == ErrorCode.not_leader_or_follower


async def test_lost_observers_are_forgotten_after_five_minutes(autojump_clock: Clock) -> None:
    async with Cluster(voter_ids=(1,)).running() as cluster:
        leader = await cluster.wait_for_leader()
        async with RawClient.connected(cluster, 1) as client:
            await client.fetch(0, epoch=leader.view.epoch, last_fetched_epoch=0, replica=key_of(9))
            await trio.sleep(299)
            assert [observer.key for observer in (await client.describe()).observers] == [key_of(9)]
            await trio.sleep(2)
            assert (await client.describe()).observers == ()


@pytest.mark.parametrize("observes", [False, True], ids=["voters only", "with an observer"])
async def test_static_voters_elect_and_restart(autojump_clock: Clock, observes: bool) -> None:
    """kraft.version 0: no voters in the log, quorum-state in version 0, keys without directory ids."""
    cluster = Cluster(are_static=True)
    async with cluster.running(1, 2, 3, *([4] if observes else [])):
        old = await cluster.wait_for_leader()
        await old.append([b"one"])
        await cluster.wait_until_alike()
        assert [[type(record) for record in batch] for batch in control_batches(old)] == [[LeaderChange]]
        state = json.loads(cluster.disks[old.key.id].read_bytes(f"/data/{TOPIC}-0/quorum-state"))
        assert (state["data_version"], state["leaderId"]) == (0, old.key.id)
        assert state["currentVoters"] == [{"voterId": id} for id in cluster.voter_ids]
        async with RawClient.connected(cluster, old.key.id) as client:
            described = await client.describe()
        assert [voter.key for voter in described.voters if voter.key.id != old.key.id] == [
            ReplicaKey(id) for id in cluster.voter_ids if id != old.key.id
        ]
        assert [observer.key.id for observer in described.observers] == ([4] if observes else [])

        await cluster.crash(old.key.id)
        new = await cluster.wait_until_other_leads(old)
        await new.append([b"two"])
        restarted = await cluster.restart(old.key.id)
        assert isinstance(restarted.view.role, Resigned)
        await restarted.election.view.wait_for(lambda view: isinstance(view.role, Follower))
        await cluster.wait_until_alike()
        assert cluster.values(restarted) == [b"one", b"two"]
