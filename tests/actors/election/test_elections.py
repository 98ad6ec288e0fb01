"""Who leads and who does not: check-quorum, pre-vote, votes, other incarnations, slow peers."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio
import trio.testing

from kraft_trio.protocol.roles import Follower, Leader, Prospective, Unattached
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.wire.api import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, UPDATE_RAFT_VOTER
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, STRANGER, TOPIC, TOPIC_ID, RawClient
from tests.support.voter_change_requests import update_voter

FETCH_TIMEOUT_S = 2.0


# Check-quorum


@pytest.mark.parametrize("silent", [False, True], ids=["connections break", "nothing arrives"])
@on_cluster()
async def test_a_leader_cut_from_the_majority_resigns(cluster: Cluster, silent: bool) -> None:
    """Within 1.5 fetch timeouts of the last fetch, and not before one (scenario S4)."""
    leader = await cluster.wait_for_leader()
    cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id}, silent=silent)
    await trio.sleep(FETCH_TIMEOUT_S)
    assert isinstance(leader.view.role, Leader)
    await trio.sleep(FETCH_TIMEOUT_S / 2 + 0.01)
    assert not isinstance(leader.view.role, Leader)


@on_cluster()
async def test_one_voter_in_contact_of_three_is_enough(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    stamp = leader.view.stamp
    near, far = cluster.others(leader)
    cluster.partition({leader.key.id, near.key.id}, {far.key.id})
    await trio.sleep(10 * FETCH_TIMEOUT_S)
    assert leader.view.stamp == stamp


@on_cluster(observers=1)
async def test_observers_do_not_keep_a_leader_in_office(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    observer = cluster.nodes[4]
    await observer.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    cluster.partition({leader.key.id, 4}, set(cluster.voter_ids) - {leader.key.id})
    await trio.sleep(1.5 * FETCH_TIMEOUT_S + 0.01)
    assert not isinstance(leader.view.role, Leader)


@on_cluster(voters=1)
async def test_a_sole_voter_never_resigns(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    stamp = leader.view.stamp
    await trio.sleep(100 * FETCH_TIMEOUT_S)
    assert leader.view.stamp == stamp


# Pre-vote


@pytest.mark.parametrize("silent", [False, True], ids=["connections break", "nothing arrives"])
@on_cluster()
async def test_a_follower_that_was_isolated_disturbs_nobody(cluster: Cluster, silent: bool) -> None:
    """It asked for pre-votes all the time, so its epoch is where it was (KIP-996)."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    stamp = leader.view.stamp
    lonely, _ = cluster.others(leader)
    cluster.partition({lonely.key.id}, set(cluster.voter_ids) - {lonely.key.id}, silent=silent)
    await lonely.election.view.wait_for(lambda view: isinstance(view.role, Prospective))
    await trio.sleep(20)
    assert lonely.view.epoch == stamp.epoch
    await leader.append([b"meanwhile"])
    cluster.heal()
    await cluster.wait_until_alike()
    assert leader.view.stamp == stamp
    assert isinstance(lonely.view.role, Follower)


@on_cluster()
async def test_a_voter_that_hears_a_leader_refuses_pre_votes(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    for node in (leader, *cluster.others(leader)):
        before = cluster.machines[node.key.id].disk.read_bytes(f"/data/{TOPIC}-0/quorum-state"), node.view.stamp
        async with RawClient.connected(cluster, node.key.id) as client:
            answer = await client.vote(STRANGER, node.view.epoch, (1000, node.view.epoch), pre_vote=True)
        assert not answer.vote_granted
        assert answer.leader_id == leader.key.id
        assert (
            cluster.machines[node.key.id].disk.read_bytes(f"/data/{TOPIC}-0/quorum-state"),
            node.view.stamp,
        ) == before


@on_cluster(started=(1,))
async def test_a_granted_pre_vote_is_no_vote(cluster: Cluster) -> None:
    """Without a leader pre-votes are granted to any number of candidates; none of them is written down."""
    node = cluster.nodes[1]
    await trio.sleep(0.1)
    stored = cluster.machines[1].disk.read_bytes(f"/data/{TOPIC}-0/quorum-state")
    async with RawClient.connected(cluster, 1) as client:
        answers = [await client.vote(cluster.key_of(id), node.view.epoch, (0, 0), pre_vote=True) for id in (2, 3)]
    assert [answer.vote_granted for answer in answers] == [True, True]
    assert cluster.machines[1].disk.read_bytes(f"/data/{TOPIC}-0/quorum-state") == stored


# Votes


@on_cluster(started=(1,), invariants=FORGED)
async def test_one_vote_an_epoch_also_over_a_crash(cluster: Cluster) -> None:
    """The answer came after the vote was durable: who restarts keeps to it, for the same key only."""
    async with RawClient.connected(cluster, 1) as client:
        assert (await client.vote(cluster.key_of(2), 7, (0, 0))).vote_granted
    cluster.machines[1].crash("all")
    await cluster.machines[1].start()
    async with RawClient.connected(cluster, 1) as client:
        assert not (await client.vote(cluster.key_of(3), 7, (0, 0))).vote_granted
        assert not (await client.vote(ReplicaKey(2, UUID(int=5555)), 7, (0, 0))).vote_granted, "another disk"
        assert (await client.vote(cluster.key_of(2), 7, (0, 0))).vote_granted, "the same one may ask again"
        assert (await client.vote(cluster.key_of(3), 8, (0, 0))).vote_granted, "the next epoch"


@on_cluster(started=(1,), invariants=FORGED)
async def test_votes_with_errors(cluster: Cluster) -> None:
    async with RawClient.connected(cluster, 1) as client:
        await client.vote(cluster.key_of(2), 7, (0, 0))
        older = await client.vote(cluster.key_of(2), 6, (0, 0))
        from_the_future = await client.vote(cluster.key_of(2), 8, (5, 8))
        misdirected = await client.vote(cluster.key_of(2), 7, (0, 0), receiver=cluster.key_of(3))
        other_disk = await client.vote(cluster.key_of(2), 7, (0, 0), receiver=ReplicaKey(1, UUID(int=5555)))
    assert older.partition_error == ErrorCode.fenced_leader_epoch
    assert from_the_future.partition_error == ErrorCode.invalid_request
    assert misdirected.partition_error == other_disk.partition_error == ErrorCode.invalid_voter_key
    assert cluster.nodes[1].view.epoch == 7


@pytest.mark.parametrize("cluster_id", ["another", None])
@on_cluster()
async def test_another_cluster_changes_nothing(cluster: Cluster, cluster_id: str | None) -> None:
    """Invariant NothingFromStrangers: a request without our cluster id does not even move the epoch."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    for node in (leader, *cluster.others(leader)):
        stamp, end = node.view.stamp, node.log.end
        async with RawClient.connected(cluster, node.key.id) as client:
            vote = await client.vote(STRANGER, 99, (999, 98), cluster_id=cluster_id)
            begin = await client.ask(
                BEGIN_QUORUM_EPOCH,
                BeginQuorumEpochRequest(
                    cluster_id, -1, TOPIC, 0, UUID(int=0), 9, 99, Endpoints({LISTENER: cluster.endpoint_of(9)})
                ),
            )
            end_epoch = await client.ask(END_QUORUM_EPOCH, EndQuorumEpochRequest(cluster_id, TOPIC, 0, 9, 99))
            partition = FetchPartition(TOPIC, TOPIC_ID, 0, 0, 2**20, current_leader_epoch=1, last_fetched_epoch=0)
            fetched = await client.ask(FETCH, FetchRequest(cluster_id, 9, 0, partitions=(partition,)))
            snapshot_id = OffsetAndEpoch(1, 1)
            piece = await client.ask(
                FETCH_SNAPSHOT, FetchSnapshotRequest(cluster_id, 9, 1, TOPIC, 0, stamp.epoch, snapshot_id, 0)
            )
            updated = await update_voter(cluster, node, node.key, cluster_id=cluster_id)
        for answer in (vote, begin, end_epoch, fetched, piece, updated):
            assert answer.error == ErrorCode.inconsistent_cluster_id
        await trio.sleep(0.5)
        assert (node.view.stamp, node.log.end) == (stamp, end)


@on_cluster()
async def test_a_second_leader_of_one_epoch_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, other = cluster.others(leader)
    await cluster.wait_until_alike()
    stamp = follower.view.stamp
    async with RawClient.connected(cluster, follower.key.id) as client:
        answer = await client.ask(
            BEGIN_QUORUM_EPOCH,
            BeginQuorumEpochRequest(
                CLUSTER_ID,
                -1,
                TOPIC,
                0,
                UUID(int=0),
                other.key.id,
                stamp.epoch,
                Endpoints({LISTENER: cluster.endpoint_of(other.key.id)}),
            ),
        )
    assert answer.partition_error == ErrorCode.invalid_request
    assert answer.leader_id == leader.key.id
    assert follower.view.stamp == stamp


# Other incarnations


@on_cluster()
async def test_a_voter_on_a_blank_disk_is_another_replica(cluster: Cluster) -> None:
    """Scenarios S2 and S8: it reads the log as an observer, and counts neither for votes nor for commits."""
    leader = await cluster.wait_for_leader()
    swapped, other = cluster.others(leader)
    machine = cluster.machines[swapped.key.id]
    machine.kill()
    await machine.wait_until_ended()
    machine.replace_disk()
    blank = await machine.start()
    assert blank.key.directory_id != swapped.key.directory_id
    await leader.append([b"two of three"])
    await cluster.wait_until_alike()
    async with RawClient.connected(cluster, leader.key.id) as client:
        described = await client.describe()
    assert blank.key in {observer.key for observer in described.observers}
    assert {voter.key for voter in described.voters} == {voter.key for voter in cluster.initial_voters}

    cluster.machines[other.key.id].kill()
    with trio.move_on_after(1):
        await leader.append([b"one of three"])
        pytest.fail("committed by a replica that is no voter")
    await cluster.wait_until(lambda: not isinstance(leader.view.role, Leader))
    await trio.sleep(20)
    assert cluster.leader() is None
    assert isinstance(blank.view.role, Unattached | Follower), "it does not campaign either"


# Slow and far


@on_cluster()
async def test_far_peers_and_slow_disks_only_take_longer(cluster: Cluster) -> None:
    cluster.network.set_default_link(latency=Latency.constant(0.1))
    for machine in cluster.machines.values():
        machine.disk.sync_latency = lambda: 0.2
    with trio.fail_after(15):
        leader = await cluster.wait_for_leader()
        stamp = leader.view.stamp
        await leader.append([b"value"])
    await trio.sleep(10)
    assert leader.view.stamp == stamp


@on_cluster()
async def test_a_commit_waits_for_the_slowest_disk_it_needs(cluster: Cluster) -> None:
    """One slow follower of two does not delay a commit; both do; the leader's own slow disk does not."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    one, two = cluster.others(leader)
    for slow, delayed in (((one,), False), ((one, two), True), ((leader,), False), ((leader, one), True)):
        for node in cluster.nodes.values():
            cluster.machines[node.key.id].disk.sync_latency = (lambda: 0.3) if node in slow else (lambda: 0.0)
        begun = trio.current_time()
        await leader.append([b"value"])
        assert (trio.current_time() - begun > 0.29) is delayed
        await cluster.wait_until_alike()


# Listeners


@on_cluster(
    settings={
        "controller.listener.names": "CONTROLLER,SECOND",
        "listeners": "CONTROLLER://node-1:1,SECOND://node-1:2",
    },
    started=(1,),
    invariants=FORGED,
)
async def test_answers_name_the_listener_that_was_asked(cluster: Cluster) -> None:
    """A leader has two listeners; a peer that asks on one must be told an address that it can reach."""
    at = {"CONTROLLER": Endpoint("two-1", 1), "SECOND": Endpoint("two-2", 2)}
    begin = BeginQuorumEpochRequest(CLUSTER_ID, -1, TOPIC, 0, UUID(int=0), 2, 7, Endpoints(at))
    async with RawClient.connected(cluster, 1, Endpoint("node-1", 1)) as client:
        first = await client.ask(BEGIN_QUORUM_EPOCH, begin)
    async with RawClient.connected(cluster, 1, Endpoint("node-1", 2)) as client:
        second = await client.ask(BEGIN_QUORUM_EPOCH, begin)
        vote = await client.vote(cluster.key_of(3), 7, (0, 0))
        end = await client.ask(END_QUORUM_EPOCH, EndQuorumEpochRequest(CLUSTER_ID, TOPIC, 0, 2, 6))
        key = cluster.key_of(1)
        update = await client.ask(
            UPDATE_RAFT_VOTER,
            UpdateRaftVoterRequest(CLUSTER_ID, 7, key.id, key.directory_id, Endpoints(at), VersionRange(0, 1)),
        )
        piece = await client.ask(
            FETCH_SNAPSHOT, FetchSnapshotRequest(CLUSTER_ID, 3, 1, TOPIC, 0, 7, OffsetAndEpoch(1, 1), 0)
        )
    assert first.leader_endpoint == at["CONTROLLER"]
    for answer in (second, vote, end, update, piece):
        assert answer.leader_endpoint == at["SECOND"]


@on_cluster()
async def test_a_first_grant_is_logged_with_its_own_reason(cluster: Cluster) -> None:
    granted: list[object] = []

    def note(event: TraceEvent) -> None:
        if event.cause == "vote requested" and event.details["granted"] and not event.details["pre_vote"]:
            granted.append(event.details["reason"])

    cluster.trace.listeners.append(note)
    await cluster.wait_for_leader()
    assert granted
    assert set(granted) == {"first to ask, log up to date"}
