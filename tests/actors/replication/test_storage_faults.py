"""Disks that fail or lose power: nothing is acknowledged, counted or promised before its own fsync."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
import trio.testing

from kraft_trio.errors import NetworkError, OutcomeUnknownError, StorageFailure
from kraft_trio.protocol.roles import Follower, election_state_of
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.steps import disk
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.logs import values_in
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, RawClient, batch_of


@on_cluster(voters=1)
async def test_a_sole_voter_acknowledges_after_its_fsync_only(cluster: Cluster) -> None:
    """Scenario S10: it crashes between append and fsync; nobody was told that the record is there."""
    node = await cluster.wait_for_leader()
    await node.append([b"first"])
    cluster.machines[1].disk.sync_latency = lambda: 1.0
    acknowledged: list[range] = []

    async def append() -> None:
        with suppress(OutcomeUnknownError):
            acknowledged.append(await node.append([b"second"]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        await trio.sleep(0.9)
        assert values_in(node) == [b"first", b"second"], "appended"
        assert not acknowledged
        cluster.machines[1].crash("all")
    assert not acknowledged
    cluster.machines[1].disk.sync_latency = lambda: 0.0
    node = await cluster.machines[1].start()
    assert values_in(node) == [b"first"]
    await cluster.wait_for_leader()


@on_cluster(voters=1)
async def test_a_sole_voter_leads_at_once_also_after_a_restart(cluster: Cluster) -> None:
    with trio.fail_after(0.05):
        node = await cluster.wait_for_leader()
    await node.append([b"value"])
    cluster.machines[1].crash("all")
    await cluster.machines[1].start()
    with trio.fail_after(0.05):
        node = await cluster.wait_for_leader()
    assert values_in(node) == [b"value"]


@on_cluster()
async def test_a_leader_does_not_count_itself_before_its_fsync(cluster: Cluster) -> None:
    """With one follower down the leader needs its own copy; Kafka would count the page cache."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    up, down = cluster.others(leader)
    cluster.machines[down.key.id].kill()
    cluster.machines[leader.key.id].disk.sync_latency = lambda: 0.5
    with trio.move_on_after(0.49):
        await leader.append([b"value"])
        pytest.fail("acknowledged by one of three")
    assert up.log.synced_end_offset == leader.log.end_offset > leader.log.synced_end_offset


@on_cluster()
async def test_a_failed_fsync_ends_the_leader_and_nobody_else(cluster: Cluster) -> None:
    """Scenario S12: later fsyncs would "succeed", the record is gone all the same, and was not acknowledged."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"kept"])
    await cluster.wait_until_alike()
    leader_id = leader.key.id
    cluster.partition({leader_id}, set(cluster.voter_ids) - {leader_id})
    async with RawClient.connected(cluster, leader_id) as client, trio.open_nursery() as nursery:
        answers: list[ErrorCode] = []

        async def produce() -> None:
            with suppress(NetworkError):
                answers.append((await client.produce(batch_of(b"lost"))).error)

        await disk.fail_sync(leader_id).take(cluster)
        nursery.start_soon(produce)
        await cluster.machines[leader_id].wait_until_ended()
    assert isinstance(cluster.machines[leader_id].failure, StorageFailure)
    assert isinstance(leader.log.poisoned, OSError)
    assert answers in ([], [ErrorCode.request_timed_out])
    cluster.heal()
    new = await cluster.wait_for_leader()
    await new.append([b"goes on"])
    await cluster.machines[leader_id].start()
    await cluster.wait_until_alike()
    assert values_in(cluster.nodes[leader_id]) == [b"kept", b"goes on"]


@on_cluster()
async def test_a_follower_whose_fsync_fails_acknowledges_nothing(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    failing, down = cluster.others(leader)
    cluster.machines[down.key.id].kill()
    before = leader.high_watermark
    await disk.fail_sync(failing.key.id).take(cluster)
    with trio.move_on_after(1):
        await leader.append([b"value"])
        pytest.fail("acknowledged by one of three")
    assert isinstance(cluster.machines[failing.key.id].failure, StorageFailure)
    assert leader.high_watermark == before


@on_cluster(started=(1,), invariants=FORGED)
async def test_a_vote_that_cannot_be_stored_is_not_given(cluster: Cluster) -> None:
    async with RawClient.connected(cluster, 1) as client:
        await disk.fail_sync(1).take(cluster)
        with pytest.raises(NetworkError):
            await client.vote(cluster.key_of(2), 7, (0, 0))
    await cluster.machines[1].wait_until_ended()
    assert isinstance(cluster.machines[1].failure, StorageFailure)


@on_cluster(started=(1,), invariants=FORGED)
async def test_a_vote_is_answered_once_it_is_stored(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        cluster.machines[1].disk.sync_latency = lambda: 0.3
        answers: list[bool] = []

        async def ask() -> None:
            async with RawClient.connected(cluster, 1) as client:
                answers.append((await client.vote(cluster.key_of(2), 7, (0, 0))).vote_granted)

        nursery.start_soon(ask)
        await trio.sleep(0.29)
        assert answers == []
        await trio.sleep(1)
        assert answers == [True]
        cluster.machines[1].crash("all")
        node = await cluster.machines[1].start()
        assert node.view.role.voted == cluster.key_of(2)  # type: ignore[union-attr]


@on_cluster()
async def test_a_follower_that_lost_its_tail_gets_it_again(cluster: Cluster) -> None:
    """Power failed before its fsync; the leader had not counted the lost records (invariant ProgressIsDurable)."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, _ = cluster.others(leader)
    cluster.machines[follower.key.id].disk.sync_latency = lambda: 10.0
    await leader.append([b"value"])
    await cluster.wait_until(lambda: follower.log.end_offset == leader.log.end_offset)
    cluster.machines[follower.key.id].crash("all")
    cluster.machines[follower.key.id].disk.sync_latency = lambda: 0.0
    follower = await cluster.machines[follower.key.id].start()
    assert values_in(follower) == []
    await follower.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    await cluster.wait_until_alike()
    assert values_in(follower) == [b"value"]


@on_cluster(voters=1, started=())
async def test_a_failure_that_meets_a_cancellation_comes_out_by_itself(cluster: Cluster) -> None:
    """The block is cancelled while an fsync is under way that then fails: its owner sees a StorageFailure, no group."""
    disk, outcomes = cluster.machines[1].disk, []

    async def fail_while_cancelled() -> None:
        with trio.CancelScope() as scope:
            async with lone_node(cluster, 1) as node:
                await node.append([b"first"])
                disk.sync_latency = lambda: 1.0
                disk.fail("sync")
                with suppress(OutcomeUnknownError), trio.move_on_after(0.5):
                    outcomes.append(await node.append([b"second"]))
                scope.cancel()
                await trio.sleep_forever()

    with pytest.raises(StorageFailure):
        await fail_while_cancelled()
    assert outcomes == []


@on_cluster()
async def test_a_failed_process_vote_is_synced_before_it_is_acted_on(cluster: Cluster) -> None:
    """The vote's file is renamed, the directory's fsync fails, and the process ends: the next one reads that vote."""
    leader = await cluster.wait_for_leader()
    voter = cluster.machines[cluster.others(leader)[0].key.id]
    voter.excuse("its directory cannot be synced")
    voter.disk.fail("sync_directory", name="-0")
    cluster.machines[leader.key.id].kill()
    await voter.wait_until_ended()
    assert isinstance(voter.failure, StorageFailure)
    await voter.start()
    replica = voter.replica
    assert replica is not None
    await cluster.wait_until(lambda: replica.view is not None)
    assert replica.view is not None
    stored = replica.durable_election_state()
    assert stored is not None
    assert stored == election_state_of(replica.view.role, replica.key)


@on_cluster(voters=1)
async def test_a_node_ends_with_what_failed_first(cluster: Cluster) -> None:
    """A log that cannot be read ends the node; closing it fails too, on the same disk, and that is not what is told."""
    node = await cluster.wait_for_leader()
    await node.append([b"value"])
    machine = cluster.machines[1]
    machine.excuse("its disk fails")
    machine.disk.fail("read_at", name=".log")
    machine.disk.fail("rename", times=100)
    async with RawClient.connected(cluster, 1) as client:
        with suppress(NetworkError):
            await client.fetch(0)
    await machine.wait_until_ended()
    assert "cannot read the log" in str(machine.failure)


@on_cluster()
async def test_a_poisoned_log_ends_the_node_whichever_actor_notices(cluster: Cluster) -> None:
    """Somebody who asked for something hears of the failure, and answers it; the node must not continue all the same.

    Nor does it hand over, which would take long here: nobody hears it.
    """
    node = await cluster.wait_for_leader()
    machine = cluster.machines[node.key.id]
    cluster.network.isolate(machine.host)
    machine.excuse("its disk fails")
    machine.disk.fail("append", name=".log")
    with pytest.raises(StorageFailure):
        node.log.append_as_leader(bytearray(batch_of(b"value")), node.view.epoch)
    with trio.fail_after(0.1):
        await machine.wait_until_ended()
    assert "injected: EIO" in str(machine.failure)
