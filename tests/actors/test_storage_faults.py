"""Disks that fail or lose power: nothing is acknowledged, counted or promised before its own fsync."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
import trio.testing

from kraft_trio.errors import NetworkError, OutcomeUnknownError, StorageFailure
from kraft_trio.protocol.roles import Follower
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.cluster import Cluster, key_of
from tests.support.raw_client import RawClient, batch_of

Clock = trio.testing.MockClock


async def test_a_sole_voter_acknowledges_after_its_fsync_only(autojump_clock: Clock) -> None:
    """Scenario S10: it crashes between append and fsync; nobody was told that the record is there."""
    async with Cluster(voter_ids=(1,)).running() as cluster:
        node = await cluster.wait_for_leader()
        await node.append([b"first"])
        cluster.disks[1].sync_latency = lambda: 1.0
        acknowledged: list[range] = []

        async def append() -> None:
            with suppress(OutcomeUnknownError):
                acknowledged.append(await node.append([b"second"]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await trio.sleep(0.9)
            assert cluster.values(node) == [b"first", b"second"], "appended"
            assert not acknowledged
            await cluster.crash(1)
        assert not acknowledged
        cluster.disks[1].sync_latency = lambda: 0.0
        node = await cluster.restart(1)
        assert cluster.values(node) == [b"first"]
        await cluster.wait_for_leader()


async def test_a_sole_voter_leads_at_once_also_after_a_restart(autojump_clock: Clock) -> None:
    async with Cluster(voter_ids=(1,)).running() as cluster:
        with trio.fail_after(0.05):
            node = await cluster.wait_for_leader()
        await node.append([b"value"])
        await cluster.crash(1)
        await cluster.restart(1)
        with trio.fail_after(0.05):
            node = await cluster.wait_for_leader()
        assert cluster.values(node) == [b"value"]


async def test_a_leader_does_not_count_itself_before_its_fsync(autojump_clock: Clock) -> None:
    """With one follower down it needs its own copy: D8, where Kafka counts the page cache."""
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        up, down = cluster.others(leader)
        cluster.kill(down.key.id)
        cluster.disks[leader.key.id].sync_latency = lambda: 0.5
        with trio.move_on_after(0.49):
            await leader.append([b"value"])
            pytest.fail("acknowledged by one of three")
        assert up.log.synced_end_offset == leader.log.end_offset > leader.log.synced_end_offset


async def test_a_failed_fsync_ends_the_leader_and_nobody_else(autojump_clock: Clock) -> None:
    """Scenario S12: later fsyncs would "succeed", the record is gone all the same, and was not acknowledged."""
    async with Cluster().running() as cluster:
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

            cluster.fail_next_sync(leader_id)
            nursery.start_soon(produce)
            await cluster.ended[leader_id].wait()
        assert isinstance(cluster.failures[leader_id], StorageFailure)
        assert isinstance(leader.log.poisoned, OSError)
        assert answers in ([], [ErrorCode.not_leader_or_follower])
        cluster.heal()
        new = await cluster.wait_for_leader()
        await new.append([b"goes on"])
        await cluster.restart(leader_id)
        await cluster.wait_until_alike()
        assert cluster.values(cluster.nodes[leader_id]) == [b"kept", b"goes on"]


async def test_a_follower_whose_fsync_fails_acknowledges_nothing(autojump_clock: Clock) -> None:
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        failing, down = cluster.others(leader)
        cluster.kill(down.key.id)
        before = leader.high_watermark
        cluster.fail_next_sync(failing.key.id)
        with trio.move_on_after(1):
            await leader.append([b"value"])
            pytest.fail("acknowledged by one of three")
        assert isinstance(cluster.failures[failing.key.id], StorageFailure)
        assert leader.high_watermark == before


async def test_a_vote_that_cannot_be_stored_is_not_given(autojump_clock: Clock) -> None:
    async with Cluster().running(1) as cluster:
        async with RawClient.connected(cluster, 1) as client:
            cluster.fail_next_sync(1)
            with pytest.raises(NetworkError):
                await client.vote(key_of(2), 7, (0, 0))
        await cluster.ended[1].wait()
        assert isinstance(cluster.failures[1], StorageFailure)


async def test_a_vote_is_answered_once_it_is_stored(autojump_clock: Clock) -> None:
    async with Cluster().running(1) as cluster, trio.open_nursery() as nursery:
        cluster.disks[1].sync_latency = lambda: 0.3
        answers: list[bool] = []

        async def ask() -> None:
            async with RawClient.connected(cluster, 1) as client:
                answers.append((await client.vote(key_of(2), 7, (0, 0))).vote_granted)

        nursery.start_soon(ask)
        await trio.sleep(0.29)
        assert answers == []
        await trio.sleep(1)
        assert answers == [True]
        await cluster.crash(1)
        node = await cluster.restart(1)
        assert node.view.role.voted == key_of(2)  # type: ignore[union-attr]


async def test_a_follower_that_lost_its_tail_gets_it_again(autojump_clock: Clock) -> None:
    """Power failed before its fsync; the leader never counted what it had not said it had synced (invariant 20)."""
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        follower, _ = cluster.others(leader)
        cluster.disks[follower.key.id].sync_latency = lambda: 10.0
        await leader.append([b"value"])
        await cluster.wait_until(lambda: follower.log.end_offset == leader.log.end_offset)
        await cluster.crash(follower.key.id)
        cluster.disks[follower.key.id].sync_latency = lambda: 0.0
        follower = await cluster.restart(follower.key.id)
        assert cluster.values(follower) == []
        await follower.election.view.wait_for(lambda view: isinstance(view.role, Follower))
        await cluster.wait_until_alike()
        assert cluster.values(follower) == [b"value"]


async def test_a_failure_that_meets_a_cancellation_comes_out_by_itself(autojump_clock: Clock) -> None:
    """The block is cancelled while an fsync is under way that then fails: its owner sees a StorageFailure, no group."""
    async with Cluster(voter_ids=(1,)).running() as cluster:
        node = await cluster.wait_for_leader()
        cluster.disks[1].sync_latency = lambda: 1.0
        cluster.fail_next_sync(1)
        with suppress(OutcomeUnknownError), trio.move_on_after(0.5):
            await node.append([b"value"])
        cluster.scopes[1].cancel()
        await cluster.ended[1].wait()
        assert isinstance(cluster.failures[1], StorageFailure)
