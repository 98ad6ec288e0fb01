"""Fetch, as replicas and consumers send it: errors by epoch, divergence, parked requests."""

from __future__ import annotations

from uuid import UUID

import pytest
import structlog
import trio
import trio.testing

from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.storage.batches.batch_header import peek_header
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.logs import values_in, values_of
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import STRANGER, RawClient, batch_of
from tests.support.timing import set_timing

OBSERVER = STRANGER


@on_cluster()
async def test_the_epoch_of_a_fetch_is_checked_before_leadership(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    epoch = leader.view.epoch
    for node, in_its_epoch in (
        (leader, ErrorCode.none),
        (cluster.others(leader)[0], ErrorCode.not_leader_or_follower),
    ):
        async with RawClient.connected(cluster, node.key.id) as client:
            older = await client.fetch(0, epoch=epoch - 1, last_fetched_epoch=0, replica=OBSERVER)
            newer = await client.fetch(0, epoch=epoch + 1, last_fetched_epoch=0, replica=OBSERVER)
            same = await client.fetch(0, epoch=epoch, last_fetched_epoch=0, replica=OBSERVER)
        assert older.error == ErrorCode.fenced_leader_epoch
        assert newer.error == ErrorCode.unknown_leader_epoch
        assert same.error == in_its_epoch
        for answer in (older, newer, same):
            assert (answer.leader_id, answer.leader_epoch) == (leader.key.id, epoch)
        assert leader.view.epoch == node.view.epoch == epoch, "a Fetch raises nobody's epoch"


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "max_wait_ms"),
    [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 99, 0)],
    ids=["negative offset", "negative last epoch", "negative wait", "last epoch above the current one"],
)
@on_cluster(voters=1)
async def test_impossible_replica_fetches_are_invalid(
    cluster: Cluster, offset: int, last_fetched_epoch: int, max_wait_ms: int
) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        answer = await client.fetch(
            offset,
            epoch=leader.view.epoch,
            last_fetched_epoch=last_fetched_epoch,
            replica=OBSERVER,
            max_wait_ms=max_wait_ms,
        )
        described = await client.describe()
    assert answer.error == ErrorCode.invalid_request
    assert described.observers == (), "it counts for nothing"


@on_cluster(voters=1)
async def test_another_topic_is_unknown(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        as_consumer = await client.fetch(0, topic_id=UUID(int=42))
        as_replica = await client.fetch(0, epoch=leader.view.epoch, replica=OBSERVER, topic_id=UUID(int=42))
    assert as_consumer.error == ErrorCode.unknown_topic_id
    assert as_replica.error == ErrorCode.invalid_request


@on_cluster()
async def test_a_diverging_replica_is_told_where(cluster: Cluster) -> None:
    """And its position does not count: it holds something else there."""
    old = await cluster.wait_for_leader()
    await old.append([b"value"])
    old_end = old.log.end
    await cluster.wait_until_alike()
    cluster.machines[old.key.id].kill()
    leader = await cluster.wait_for_leader(other_than=old)
    epoch = leader.view.epoch
    high_watermark = leader.high_watermark
    async with RawClient.connected(cluster, leader.key.id) as client:
        answer = await client.fetch(
            old_end.offset + 10, epoch=epoch, last_fetched_epoch=old_end.epoch, replica=cluster.key_of(old.key.id)
        )
        described = await client.describe()
    assert answer.diverging == OffsetAndEpoch(old_end.offset, old_end.epoch)
    assert answer.records == b""
    (progress,) = [voter for voter in described.voters if voter.key == old.key]
    assert progress.log_end_offset == -1
    assert leader.high_watermark == high_watermark


@on_cluster(voters=1)
async def test_a_parked_fetch_ends_with_its_wait(cluster: Cluster) -> None:
    set_timing(cluster)
    leader = await cluster.wait_for_leader()
    end = leader.log.end
    async with RawClient.connected(cluster, 1) as client:
        begun = trio.current_time()
        answer = await client.fetch(
            end.offset,
            epoch=leader.view.epoch,
            last_fetched_epoch=end.epoch,
            replica=OBSERVER,
            max_wait_ms=700,
            high_watermark=end.offset,
        )
    assert (answer.error, answer.records) == (ErrorCode.none, b"")
    assert trio.current_time() - begun == pytest.approx(0.7, abs=0.001)


@on_cluster(voters=1)
async def test_replicas_get_unsynced_records_and_consumers_committed(
    cluster: Cluster,
) -> None:
    async with trio.open_nursery() as nursery:
        leader = await cluster.wait_for_leader()
        end = leader.log.end
        set_timing(cluster, sync_s=0.2)
        seen: dict[str, float] = {}

        async def fetch(name: str, **how: object) -> None:
            async with RawClient.connected(cluster, 1) as client:
                answer = await client.fetch(end.offset, max_wait_ms=5000, **how)  # type: ignore[arg-type]
            assert values_of(answer.records) == [(end.offset, b"value")]
            seen[name] = trio.current_time()

        nursery.start_soon(lambda: fetch("consumer", min_bytes=1))
        nursery.start_soon(lambda: fetch("replica", epoch=end.epoch, last_fetched_epoch=end.epoch, replica=OBSERVER))
        await trio.testing.wait_all_tasks_blocked()
        begun = trio.current_time()
        await leader.append([b"value"])
        await cluster.wait_until(lambda: len(seen) == 2)
        assert seen["replica"] == begun
        assert seen["consumer"] == begun + 0.2


@on_cluster()
async def test_consumers_read_the_leader_up_to_the_high_watermark(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        leader = await cluster.wait_for_leader()
        (offset,) = await leader.append([b"committed"])
        await cluster.wait_until_alike()
        follower = cluster.others(leader)[0]
        async with RawClient.connected(cluster, follower.key.id) as client:
            assert (await client.fetch(offset)).error == ErrorCode.not_leader_or_follower
        cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id})
        nursery.start_soon(leader.append, [b"not yet"])
        await cluster.wait_until(lambda: leader.log.synced_end_offset == offset + 2)
        async with RawClient.connected(cluster, leader.key.id) as client:
            read = await client.fetch(offset)
            at_the_end = await client.fetch(offset + 1)
            beyond = await client.fetch(offset + 3)
        assert values_of(read.records) == [(offset, b"committed")]
        assert (read.high_watermark, at_the_end.records) == (offset + 1, b"")
        assert beyond.error == ErrorCode.offset_out_of_range
        nursery.cancel_scope.cancel()


@on_cluster(observers=1)
async def test_a_consumer_may_read_any_replica_up_to_the_high_watermark_that_it_knows(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    (offset,) = await leader.append([b"committed"])
    await cluster.wait_until_alike()
    follower, observer = (cluster.nodes[node_id] for node_id in (cluster.others(leader)[0].key.id, 4))
    cut_off = {follower.key.id, observer.key.id}
    cluster.partition(cut_off, set(cluster.nodes) - cut_off)
    await leader.append([b"later"])
    for node in (leader, follower, observer):
        known = offset + (2 if node is leader else 1)
        async with RawClient.connected(cluster, node.key.id) as client:
            read = await client.fetch(offset, any_replica=True)
            beyond = await client.fetch(offset + 1, any_replica=True, max_wait_ms=60_000)
            small = await client.fetch(0, any_replica=True, max_bytes=1)
            as_replica = await client.fetch(
                offset, any_replica=True, replica=OBSERVER, epoch=node.view.epoch, last_fetched_epoch=0
            )
        assert values_of(read.records)[:1] == [(offset, b"committed")]
        assert (read.error, read.high_watermark, read.leader_id) == (ErrorCode.none, known, leader.key.id)
        assert len(values_of(beyond.records)) == known - offset - 1
        assert peek_header(small.records).base_offset == 0
        assert (as_replica.error == ErrorCode.none) == (node is leader), "a replica fetches from the leader alone"


@on_cluster()
async def test_a_replica_does_not_give_what_may_never_commit(cluster: Cluster) -> None:
    """A leader without a majority keeps records that the next leader truncates."""
    old = await cluster.wait_for_leader()
    (offset,) = await old.append([b"committed"])
    await cluster.wait_until_alike()
    cluster.partition({old.key.id}, {node.key.id for node in cluster.others(old)})
    async with RawClient.connected(cluster, old.key.id) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.produce, batch_of(b"never"))
        await cluster.wait_until(lambda: not isinstance(old.view.role, Leader))
        assert old.log.end_offset > offset + 1
        nursery.cancel_scope.cancel()
    async with RawClient.connected(cluster, old.key.id) as client:
        answer = await client.fetch(offset, any_replica=True)
    assert (answer.error, values_of(answer.records)) == (ErrorCode.none, [(offset, b"committed")])


@on_cluster()
async def test_a_replica_has_no_records_below_its_logs_start(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower = cluster.others(leader)[0]
    async with RawClient.connected(cluster, follower.key.id) as client:
        answer = await client.fetch(-1, any_replica=True)
    assert (answer.error, answer.records) == (ErrorCode.offset_out_of_range, b"")


@on_cluster(voters=1)
async def test_one_batch_always_comes_whole(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    (offset,) = await leader.append([bytes(1000)])
    async with RawClient.connected(cluster, 1) as client:
        answer = await client.fetch(offset, max_bytes=1)
    assert values_of(answer.records) == [(offset, bytes(1000))]


@on_cluster()
async def test_a_stale_answer_from_an_old_leader_changes_nothing(cluster: Cluster) -> None:
    """Nothing arrives for a while, a new leader is elected; what the old one had sent then comes in late (S14)."""
    old = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, other = cluster.others(old)
    cluster.partition({old.key.id}, {follower.key.id, other.key.id}, silent=True)
    async with RawClient.connected(cluster, old.key.id) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.produce, batch_of(b"never"))
        new = await cluster.wait_for_leader(other_than=old)
        await new.append([b"value"])
        cluster.heal()
        await cluster.wait_until_alike()
        nursery.cancel_scope.cancel()
    assert isinstance(new.view.role, Leader)
    assert [values_in(node) for node in cluster.nodes.values()] == [[b"value"]] * 3


@on_cluster()
async def test_each_fetch_has_the_whole_time_for_its_answer(cluster: Cluster) -> None:
    """Neither earlier fetches nor a slow disk take away from it."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower = cluster.others(leader)[0]
    with structlog.testing.capture_logs() as events:
        await trio.sleep(10)
        cluster.machines[follower.key.id].disk.sync_latency = lambda: 4.0
        await leader.append([b"value"])
        await cluster.wait_until(lambda: follower.log.high_watermark == leader.log.high_watermark)
    assert "fetch failed" not in {event["event"] for event in events}


@on_cluster()
async def test_a_fetch_is_given_up_in_time_after_others_were_answered(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await trio.sleep(10)
    with structlog.testing.capture_logs() as events:
        cluster.machines[leader.key.id].pause()
        await trio.sleep(1.9)
    reasons = [event["reason"] for event in events if event["event"] == "fetch failed"]
    assert reasons == ["no answer to a Fetch in 1.5 s"] * 2
