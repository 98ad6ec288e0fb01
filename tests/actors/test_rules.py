"""The three rules that make separate actors safe (docs/explanation/architecture.md).

Each test fails when its rule is taken out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.actors.waiting.served_mailbox import ServedMailbox
from kraft_trio.channels import Mailbox, Reply
from kraft_trio.messages import (
    FetchedFromLeader,
    FetchReceived,
    HandedOver,
    LeaderHeardOf,
    LeaderMessage,
    LeadershipLost,
    ProduceReceived,
    ShutDown,
    Stamp,
    TimedOut,
    VoteReceived,
    VoteRoundEnded,
)
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Resigned
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoints, ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.invariants import OneVotePerEpoch
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, encode_control_batch, peek_header
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.epoch_context import lone_epoch, voters_of
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, STRANGER
from tests.support.timing import set_timing


def vote_request(
    candidate: ReplicaKey, epoch: int, last_offset: int, last_epoch: int, *, pre_vote: bool = False
) -> VoteRequest:
    return VoteRequest(
        cluster_id=CLUSTER_ID,
        voter_id=-1,
        topic="__cluster_metadata",
        partition=0,
        replica=candidate,
        replica_epoch=epoch,
        voter_directory_id=NO_DIRECTORY_ID,
        last_offset=last_offset,
        last_offset_epoch=last_epoch,
        pre_vote=pre_vote,
    )


@on_cluster(invariants=FORGED)
async def test_r1_a_vote_waits_for_the_fsync_under_way(cluster: Cluster) -> None:
    """A follower is syncing what its leader sent when a vote for the next epoch is asked of it.

    Answering before the fsync has ended would promise a log end that the epoch's tasks can still move.
    """
    async with trio.open_nursery() as nursery:
        leader = await cluster.wait_for_leader()
        follower_id = next(id for id in cluster.voter_ids if id != leader.key.id)
        candidate = cluster.key_of(next(id for id in cluster.voter_ids if id not in (leader.key.id, follower_id)))
        follower = cluster.nodes[follower_id]
        while follower.log.end_offset < leader.log.end_offset:
            await follower.log.changed.park()
        before = follower.log.end
        cluster.machines[follower_id].disk.sync_latency = lambda: 1.0
        nursery.start_soon(leader.append, [b"value"])
        while follower.log.end_offset == before.offset:
            await follower.log.changed.park()
        assert follower.log.synced_end_offset == before.offset, "the fsync must still be under way"
        begun = trio.current_time()
        cluster.machines[follower_id].disk.sync_latency = lambda: 0.0

        epoch = follower.view.epoch + 1
        reply: Reply[VoteResponse] = Reply()
        await follower.election.tell(VoteReceived(vote_request(candidate, epoch, before.offset, before.epoch), reply))
        response = await reply.receive()

        assert trio.current_time() - begun > 0.99, "only the fsync under way tells whether it fails"
        assert follower.log.synced_end_offset == follower.log.end_offset == before.offset + 1
        assert response.leader_epoch == epoch
        assert not response.vote_granted, "the candidate lacks the record that was being synced"
        nursery.cancel_scope.cancel()


@on_cluster(invariants=FORGED)
async def test_r1_unsynced_bytes_of_an_ended_epoch_are_synced_first(cluster: Cluster) -> None:
    """Its tasks may end between an append and the fsync of it: the end that a vote tells of is durable all the same."""
    leader = await cluster.wait_for_leader()
    candidate = next(cluster.key_of(id) for id in cluster.voter_ids if id != leader.key.id)
    before, epoch = leader.log.end, leader.view.epoch
    leader.log.append_as_leader(encode_batch([NewRecord(value=b"x")], timestamp_ms=0), epoch)
    assert leader.log.synced_end_offset == before.offset, "nobody has asked for an fsync"

    reply: Reply[VoteResponse] = Reply()
    await leader.election.tell(VoteReceived(vote_request(candidate, epoch + 1, before.offset, before.epoch), reply))
    response = await reply.receive()

    assert leader.log.synced_end_offset == leader.log.end_offset == before.offset + 1
    assert not response.vote_granted, "the candidate lacks the record that was appended"


@on_cluster(invariants=tuple(invariant for invariant in FORGED if invariant is not OneVotePerEpoch))
async def test_r1_nothing_is_appended_after_a_vote_is_judged(cluster: Cluster) -> None:
    """A leader that is asked for its vote gets a record to append while it stores the vote, which takes seconds."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    candidate = next(cluster.key_of(id) for id in cluster.voter_ids if id != leader.key.id)
    before, epoch = leader.log.end, leader.view.epoch + 1
    cluster.machines[leader.key.id].disk.sync_latency = lambda: 2.0
    reply: Reply[VoteResponse] = Reply()
    await leader.election.tell(VoteReceived(vote_request(candidate, epoch, before.offset, before.epoch), reply))
    # The new epoch takes two seconds, and so does the vote in it.
    await trio.sleep(3)
    cluster.nursery.start_soon(leader.append, [b"late"])
    response = await reply.receive()

    assert response.vote_granted
    assert leader.log.end == before, "the candidate lacks the record that was appended"


@attrs.frozen
class LoneLeader:
    context: EpochContext
    mailbox: Mailbox[LeaderMessage]
    scope: trio.CancelScope
    """Ends the epoch."""


@asynccontextmanager
async def leading(cluster: Cluster, leader_id: int) -> AsyncIterator[LoneLeader]:
    """LeaderReplication by itself, over the log of that node, which does not run, in epoch 1."""
    set_timing(cluster)
    context = lone_epoch(cluster, leader_id, Stamp(1, 1)).context
    mailbox = ServedMailbox[LeaderMessage](16)
    leader = LeaderReplication(context, mailbox, granting_voters=frozenset({context.key}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.run)
        await trio.testing.wait_all_tasks_blocked()
        yield LoneLeader(context, mailbox, nursery.cancel_scope)
        nursery.cancel_scope.cancel()


def fetch_at_end(context: EpochContext, replica: ReplicaKey) -> FetchReceived:
    """The Fetch of a replica that has synced all of the leader's log."""
    partition = FetchPartition(
        topic_name="",
        topic_id=context.config.topic_id,
        partition=0,
        fetch_offset=context.log.end_offset,
        max_bytes=1024,
        current_leader_epoch=1,
        last_fetched_epoch=context.log.end.epoch,
        replica_directory_id=replica.directory_id,
    )
    request = FetchRequest(replica_id=replica.id, max_wait_ms=100, partitions=(partition,))
    reply: Reply[FetchPartitionResponse] = Reply()
    return FetchReceived(request, partition, replica, reply)


@on_cluster(voters=2, observers=2, started=())
async def test_r2_records_count_by_the_voter_set_that_came_with_them(cluster: Cluster) -> None:
    """Of voters {1,2} the leader and 2 are a majority; a record that brings {1,2,3,4} needs three."""
    async with leading(cluster, 1) as leader:
        context, mailbox = leader.context, leader.mailbox
        await mailbox.send(fetch_at_end(context, cluster.key_of(2)))
        await trio.testing.wait_all_tasks_blocked()
        assert context.log.high_watermark == context.log.end_offset

        batch = encode_control_batch([VotersRecord(voters_of(cluster, [1, 2, 3, 4]))], timestamp_ms=0)
        context.log.append_as_leader(batch, 1)
        await context.log.sync()
        await mailbox.send(fetch_at_end(context, cluster.key_of(2)))
        await trio.testing.wait_all_tasks_blocked()
        assert context.log.high_watermark == context.log.end_offset - 1, "2 of 4 have synced it"

        await mailbox.send(fetch_at_end(context, cluster.key_of(3)))
        await trio.testing.wait_all_tasks_blocked()
        assert context.log.high_watermark == context.log.end_offset, "3 of 4 have synced it"


def stale_stamps(node: Node) -> tuple[Stamp, Stamp]:
    """Stamps of another stay: an earlier one in this epoch, and one in the epoch before."""
    now = node.view.stamp
    return Stamp(now.epoch, now.transition - 1), Stamp(now.epoch - 1, now.transition)


async def served_all_messages(node: Node) -> None:
    """Wait until Election has served what was sent before: it answers a question asked behind that."""
    reply: Reply[VoteResponse] = Reply()
    question = vote_request(node.key, node.view.epoch, node.log.end_offset, node.log.end.epoch, pre_vote=True)
    await node.election.tell(VoteReceived(question, reply))
    await reply.receive()


def isolate(cluster: Cluster, node: Node) -> None:
    cluster.partition({node.key.id}, set(cluster.voter_ids) - {node.key.id})


@on_cluster()
async def test_r3_messages_of_an_earlier_stay_are_dropped(cluster: Cluster) -> None:
    """A timer and a resignation that were on their way when the role changed must not hit the role that came after.

    That they have been dealt with shows by the answer to what is asked behind them.
    """
    set_timing(cluster)
    leader = await cluster.wait_for_leader()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    await follower.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    for node, role in ((leader, Leader), (follower, Follower)):
        stamp = node.view.stamp
        for stale in stale_stamps(node):
            await node.election.tell(TimedOut(stale))
            await node.election.tell(LeadershipLost(stale, "stale"))
        await served_all_messages(node)
        assert node.view.stamp == stamp
        assert isinstance(node.view.role, role)
    await follower.election.tell(TimedOut(follower.view.stamp))
    await follower.election.view.wait_for(lambda view: not isinstance(view.role, Follower))


@on_cluster(invariants=FORGED)
async def test_r3_a_fetch_of_an_earlier_stay_does_not_count(cluster: Cluster) -> None:
    """A follower that has had no answer from its leader still grants pre-votes, so it must not think that it has."""
    leader = await cluster.wait_for_leader()
    follower, other = cluster.others(leader)
    isolate(cluster, follower)
    await follower.election.tell(LeaderHeardOf(leader.view.epoch + 1, other.key.id, Endpoints()))
    following = await follower.election.view.wait_for(lambda view: view.leader_id == other.key.id)
    for stale in stale_stamps(follower):
        await follower.election.tell(FetchedFromLeader(stale))
    await served_all_messages(follower)
    assert follower.view.role == following.role
    await follower.election.tell(FetchedFromLeader(following.stamp))
    await follower.election.view.wait_for(lambda view: isinstance(view.role, Follower) and view.role.has_fetched)


@on_cluster()
async def test_r3_a_hand_over_of_an_earlier_stay_does_not_count(cluster: Cluster) -> None:
    """A leader that shuts down waits until the voters have heard of it in this epoch."""
    leader = await cluster.wait_for_leader()
    isolate(cluster, leader)
    done: Reply[None] = Reply()
    await leader.election.tell(ShutDown(done))
    resigned = await leader.election.view.wait_for(lambda view: isinstance(view.role, Resigned))
    for stale in stale_stamps(leader):
        await leader.election.tell(HandedOver(stale))
    await served_all_messages(leader)
    assert not done.is_answered
    await leader.election.tell(HandedOver(resigned.stamp))
    await done.receive()


@on_cluster(invariants=FORGED)
async def test_r3_a_lost_round_of_an_earlier_stay_does_not_count(cluster: Cluster) -> None:
    """A candidate that loses campaigns again soon; one whose round continues waits for its election timeout."""
    node = next(iter(cluster.nodes.values()))
    isolate(cluster, node)
    await node.election.tell(TimedOut(node.view.stamp))
    campaigning = await node.election.view.wait_for(lambda view: isinstance(view.role, Prospective))
    await node.election.tell(VoteRoundEnded(campaigning.stamp, won=True))
    await node.election.view.wait_for(lambda view: isinstance(view.role, Candidate))
    begun = trio.current_time()
    for stale in stale_stamps(node):
        await node.election.tell(VoteRoundEnded(stale, won=False))
    await served_all_messages(node)
    await node.election.view.wait_for(lambda view: not isinstance(view.role, Candidate))
    assert trio.current_time() - begun >= node.config.election_timeout_ms / 1000


@on_cluster(started=())
async def test_what_waits_when_the_epoch_ends_is_answered(cluster: Cluster) -> None:
    """All get NOT_LEADER_OR_FOLLOWER, except appended batches that no leader would recognize if they came again."""
    record = encode_batch([NewRecord(value=b"x")], timestamp_ms=0)
    recognizable = encode_batch(
        [NewRecord(value=b"y")], timestamp_ms=0, producer_id=1, producer_epoch=0, base_sequence=0
    )
    appended: Reply[ProducePartitionResponse] = Reply()
    appends: list[Reply[ProducePartitionResponse]] = [Reply(), Reply()]
    async with leading(cluster, 1) as leader:
        mailbox = leader.mailbox
        completed = fetch_at_end(leader.context, cluster.key_of(2))
        await mailbox.send(completed)
        await mailbox.send(ProduceReceived(record, peek_header(record), 60_000, appended))
        await mailbox.send(ProduceReceived(recognizable, peek_header(recognizable), 60_000, appends[0]))
        await trio.testing.wait_all_tasks_blocked()
        fetches = [fetch_at_end(leader.context, STRANGER) for _ in range(2)]
        await mailbox.send(fetches[0])
        await trio.testing.wait_all_tasks_blocked()
        leader.scope.cancel()
        mailbox.send_nowait(ProduceReceived(record, peek_header(record), 60_000, appends[1]))
        mailbox.send_nowait(fetches[1])
    assert (await completed.reply.receive()).records, "the append had completed the parked fetch"
    assert (await appended.receive()).error == ErrorCode.request_timed_out
    for append in appends:
        assert (await append.receive()).error == ErrorCode.not_leader_or_follower
    for fetch in fetches:
        assert (await fetch.reply.receive()).error == ErrorCode.not_leader_or_follower
    with pytest.raises(trio.BrokenResourceError):
        await mailbox.send(fetches[0])
