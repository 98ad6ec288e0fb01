"""Produce: idempotence by sequence, refusals that change nothing, and what happens to who waits."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing

from kraft_trio.simulation import Cluster
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import RawClient, batch_of
from tests.support.timing import set_timing


@on_cluster()
async def test_the_same_sequence_again_gets_the_same_offset(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        producer = (await client.init_producer_id()).producer_id
        first = await client.produce(batch_of(b"a", b"b", producer_id=producer, base_sequence=0))
        second = await client.produce(batch_of(b"c", producer_id=producer, base_sequence=2))
        again = await client.produce(batch_of(b"a", b"b", producer_id=producer, base_sequence=0))
    assert (again.error, again.base_offset) == (ErrorCode.none, first.base_offset)
    assert second.base_offset == first.base_offset + 2
    assert values_in(leader) == [b"a", b"b", b"c"]


@on_cluster()
async def test_only_a_repeated_batch_is_answered_with_a_time(cluster: Cluster) -> None:
    """As by Kafka's leaders: so clients can tell a batch that was there before from one that is new."""
    leader = await cluster.wait_for_leader()
    batches = [
        batch_of(value, producer_id=7, base_sequence=at, timestamp_ms=5000) for at, value in enumerate([b"a", b"b"])
    ]
    async with RawClient.connected(cluster, leader.key.id) as client:
        new = [(await client.produce(batch)).log_append_time_ms for batch in batches]
        repeated = [(await client.produce(batch)).log_append_time_ms for batch in batches]
    assert (new, repeated) == ([-1, -1], [5000, 5000])


@on_cluster()
async def test_a_duplicate_is_acknowledged_when_the_original_commits(cluster: Cluster) -> None:
    """Not before: the original is in the log of the leader alone."""
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id})
        answers = [
            await client.produce(batch_of(b"a", producer_id=7, base_sequence=0), timeout_ms=500) for _ in range(2)
        ]
        assert [answer.error for answer in answers] == [ErrorCode.request_timed_out] * 2
        cluster.heal()
        answer = await client.produce(batch_of(b"a", producer_id=7, base_sequence=0))
    assert answer.error == ErrorCode.none
    assert values_in(leader) == [b"a"]


@on_cluster()
async def test_a_duplicate_does_not_wait_for_later_appends(cluster: Cluster) -> None:
    """The first batch is committed by the follower's next fetch, the second is not, as that follower is slow."""
    async with trio.open_nursery() as nursery:
        set_timing(cluster)
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        for node in cluster.others(leader):
            cluster.machines[node.key.id].disk.sync_latency = lambda: 0.1
        heard: dict[str, float] = {}

        async def produce(name: str, batch: bytes) -> None:
            async with RawClient.connected(cluster, leader.key.id) as client:
                assert (await client.produce(batch)).error == ErrorCode.none
                heard[name] = trio.current_time()

        original = batch_of(b"a", producer_id=7, base_sequence=0)
        nursery.start_soon(produce, "original", original)
        await trio.sleep(0.05)
        nursery.start_soon(produce, "next", batch_of(b"b", producer_id=7, base_sequence=1))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(produce, "duplicate", original)
        await cluster.wait_until(lambda: len(heard) == 3)
        assert heard["duplicate"] == heard["original"] < heard["next"]


@pytest.mark.parametrize(
    ("producer_epoch", "base_sequence", "error"),
    [
        (1, 5, ErrorCode.out_of_order_sequence_number),
        (0, 2, ErrorCode.invalid_producer_epoch),
        (2, 1, ErrorCode.out_of_order_sequence_number),
    ],
    ids=["a gap", "an older producer epoch", "a new producer epoch that does not start at 0"],
)
@pytest.mark.parametrize("after", ["at once", "leader change", "restart of all"])
@on_cluster()
async def test_sequences_are_kept_by_the_log(
    cluster: Cluster, producer_epoch: int, base_sequence: int, error: ErrorCode, after: str
) -> None:
    leader = await cluster.wait_for_leader()
    batches = [batch_of(b"ab", b"c", producer_id=7, producer_epoch=1, base_sequence=0)]
    async with RawClient.connected(cluster, leader.key.id) as client:
        first = [await client.produce(batch) for batch in batches]
    await cluster.wait_until_alike()
    if after == "leader change":
        cluster.machines[leader.key.id].kill()
    elif after == "restart of all":
        for node_id in cluster.voter_ids:
            cluster.machines[node_id].crash("all")
        for node_id in cluster.voter_ids:
            await cluster.machines[node_id].start()
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    async with RawClient.connected(cluster, leader.key.id) as client:
        refused = await client.produce(
            batch_of(b"x", producer_id=7, producer_epoch=producer_epoch, base_sequence=base_sequence)
        )
        duplicate = await client.produce(batches[0])
        assert leader.log.end_offset == end
        in_order = await client.produce(batch_of(b"d", producer_id=7, producer_epoch=1, base_sequence=2))
    assert refused.error == error
    assert refused.error_message is None or "producer 7" in refused.error_message
    assert (duplicate.error, duplicate.base_offset) == (ErrorCode.none, first[0].base_offset)
    assert in_order.base_offset == end


@on_cluster()
async def test_nobody_guesses_the_next_producer_id(cluster: Cluster) -> None:
    """A stranger writes with guessed producer ids; the victim's batch is still written, not taken for a duplicate."""
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        given = [(await client.init_producer_id()).producer_id for _ in range(3)]
        steps = {later - earlier for earlier, later in pairwise(given)}
        for guess in {given[-1] + step for step in (1, *steps)}:
            if guess >= 0:
                await client.produce(batch_of(b"stolen", producer_id=guess & 2**63 - 1, base_sequence=0))
        end = leader.log.end_offset
        victim = (await client.init_producer_id()).producer_id
        answer = await client.produce(batch_of(b"victim", producer_id=victim, base_sequence=0))
    assert (answer.error, answer.base_offset) == (ErrorCode.none, end)
    assert all(producer_id >= 2**40 for producer_id in [*given, victim])


@on_cluster()
async def test_producer_ids_are_unique_across_epochs(cluster: Cluster) -> None:
    """Also through followers, and over restarts, although no record tells of them."""
    ids: list[int] = []
    for _ in range(3):
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        end = leader.log.end_offset
        for node_id in cluster.voter_ids:
            async with RawClient.connected(cluster, node_id) as client:
                # As clients do: a follower's connection to a leader that has restarted is lost once.
                answer = await client.init_producer_id()
                if answer.error == ErrorCode.not_leader_or_follower:
                    answer = await client.init_producer_id()
                answers = [answer, await client.init_producer_id()]
            assert [(answer.error, answer.producer_epoch) for answer in answers] == [(ErrorCode.none, 0)] * 2
            ids += [answer.producer_id for answer in answers]
        assert leader.log.end_offset == end
        cluster.machines[leader.key.id].crash("all")
        await cluster.machines[leader.key.id].start()
        await cluster.wait_for_leader(other_than=leader)
        await cluster.wait_until_alike()
    assert len(set(ids)) == len(ids) == 18


def _with_byte(batch: bytes, position: int, value: int) -> bytes:
    return batch[:position] + bytes([value]) + batch[position + 1 :]


GOOD = batch_of(b"value")

BAD_BATCHES = {
    "nothing": (None, ErrorCode.invalid_record),
    "no bytes": (b"", ErrorCode.invalid_record),
    "a flipped bit": (_with_byte(GOOD, len(GOOD) - 2, GOOD[-2] ^ 1), ErrorCode.corrupt_message),
    "old magic": (_with_byte(GOOD, 16, 1), ErrorCode.unsupported_for_message_format),
    "two batches": (GOOD + GOOD, ErrorCode.invalid_record),
    "a cut batch": (GOOD[:-1], ErrorCode.invalid_record),
    "a header only": (GOOD[:61], ErrorCode.invalid_record),
    "too large": (batch_of(bytes(2000)), ErrorCode.message_too_large),
    "a control batch": (encode_batch([NewRecord(value=b"")], timestamp_ms=0, control=True), ErrorCode.corrupt_message),
    "a transactional batch": (
        encode_batch(
            [NewRecord(value=b"")],
            timestamp_ms=0,
            transactional=True,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
        ),
        ErrorCode.invalid_record,
    ),
}


@pytest.mark.parametrize(("records", "error"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
@on_cluster(settings={"message.max.bytes": "1000"})
async def test_bad_batches_are_refused_and_change_nothing(
    cluster: Cluster, records: bytes | None, error: ErrorCode
) -> None:
    leader = await cluster.wait_for_leader()
    end, stamp = leader.log.end_offset, leader.view.stamp
    async with RawClient.connected(cluster, leader.key.id) as client:
        answer = await client.produce(records)
        assert answer.error == error
        assert (leader.log.end_offset, leader.view.stamp) == (end, stamp)
        assert (await client.produce(GOOD)).error == ErrorCode.none


@on_cluster()
async def test_followers_refuse_and_name_the_leader(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, _ = cluster.others(leader)
    async with RawClient.connected(cluster, follower.key.id) as client:
        answer = await client.produce(GOOD)
    assert answer.error == ErrorCode.not_leader_or_follower
    assert (answer.leader_id, answer.leader_epoch) == (leader.key.id, leader.view.epoch)


@on_cluster()
async def test_an_append_that_does_not_commit_in_time_is_said_to(cluster: Cluster) -> None:
    """It may still commit, and does."""
    leader = await cluster.wait_for_leader()
    cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id})
    async with RawClient.connected(cluster, leader.key.id) as client:
        begun = trio.current_time()
        answer = await client.produce(GOOD, timeout_ms=300)
    assert answer.error == ErrorCode.request_timed_out
    assert trio.current_time() - begun == pytest.approx(0.3, abs=0.01)
    cluster.heal()
    await cluster.wait_until_alike()
    assert values_in(leader) == [b"value"]


@on_cluster()
async def test_waiting_clients_are_told_when_the_leader_resigns(cluster: Cluster) -> None:
    """Check-quorum ends the epoch: a parked fetch may ask another node, and nobody knows the fate of the append."""
    leader = await cluster.wait_for_leader()
    cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id})
    errors: list[tuple[float, ErrorCode]] = []

    async def produce() -> None:
        async with RawClient.connected(cluster, leader.key.id) as client:
            answer = await client.produce(GOOD, timeout_ms=60_000)
            errors.append((trio.current_time(), answer.error))

    async def consume() -> None:
        async with RawClient.connected(cluster, leader.key.id) as client:
            fetched = await client.fetch(leader.log.end_offset, max_wait_ms=60_000, min_bytes=1)
            errors.append((trio.current_time(), fetched.error))

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        nursery.start_soon(consume)
    assert {error for _, error in errors} == {ErrorCode.request_timed_out, ErrorCode.not_leader_or_follower}
    assert max(at for at, _ in errors) - begun <= 3.01
