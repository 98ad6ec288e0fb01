"""`Node.append` on any node: every value takes effect once, whatever happens to leaders and answers."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.errors import RecordTooLargeError
from kraft_trio.wire.api import INIT_PRODUCER_ID, PRODUCE
from tests.support.cluster import Cluster, endpoint_of

Clock = trio.testing.MockClock


@pytest.mark.parametrize("through", ["leader", "follower", "observer"])
async def test_values_appended_together_stand_together(autojump_clock: Clock, through: str) -> None:
    async with Cluster().running(1, 2, 3, 4) as cluster:
        leader = await cluster.wait_for_leader()
        node = {"leader": leader, "follower": cluster.others(leader)[0], "observer": cluster.nodes[4]}[through]
        offsets = await node.append([b"a", b"b", b"c"])
        assert len(offsets) == 3
        seen = [record async for record in _first(node.committed(0), 3)]
        assert [record.value for record in seen] == [b"a", b"b", b"c"]
        assert [record.offset for record in seen] == list(offsets)


async def _first(records, count):
    async for record in records:
        yield record
        count -= 1
        if not count:
            return


async def test_a_lost_answer_is_asked_for_again_and_the_value_is_there_once(autojump_clock: Clock) -> None:
    """The leader has appended it; the second Produce with the same sequence gets the first one's offset."""
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        follower, _ = cluster.others(leader)
        await follower.append([b"before"])
        asked = cluster.network.requests_sent[endpoint_of(follower.key.id).host, PRODUCE.key]
        cluster.network.lose_answers(PRODUCE, times=2)
        offsets = await follower.append([b"once"])
        assert cluster.network.requests_sent[endpoint_of(follower.key.id).host, PRODUCE.key] == asked + 3
        assert list(await follower.append([b"after"])) == [offsets[-1] + 1]
        assert cluster.values(leader) == [b"before", b"once", b"after"]


async def test_a_value_whose_leader_dies_before_answering_is_there_once(autojump_clock: Clock) -> None:
    """It had committed, so the new leader has it, and with it the producer's sequence."""
    async with Cluster().running(1, 2, 3, 4) as cluster, trio.open_nursery() as nursery:
        old = await cluster.wait_for_leader()
        observer = cluster.nodes[4]
        await observer.append([b"before"])
        cluster.network.lose_answers(PRODUCE, times=1000)
        nursery.start_soon(observer.append, [b"once"])
        await cluster.wait_until(lambda: b"once" in cluster.values(old))
        await cluster.wait_until_alike()
        cluster.kill(old.key.id)
        cluster.network.lose_no_more_answers()
        new = await cluster.wait_for_leader()
        await observer.append([b"after"])
        assert cluster.values(new) == [b"before", b"once", b"after"]


async def test_a_value_that_was_truncated_is_appended_anew(autojump_clock: Clock) -> None:
    """A cut-off leader's own append waits for the next leader, and gets there once."""
    async with Cluster().running() as cluster:
        old = await cluster.wait_for_leader()
        cluster.partition({old.key.id}, set(cluster.voter_ids) - {old.key.id})
        offsets: list[int] = []

        async def append() -> None:
            offsets.extend(await old.append([b"once"]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await cluster.wait_until(lambda: b"once" in cluster.values(old))
            new = await cluster.wait_until_other_leads(old)
            await new.append([b"instead"])
            assert offsets == []
            cluster.heal()
        await cluster.wait_until_alike()
        assert [cluster.values(node) for node in cluster.nodes.values()] == [[b"instead", b"once"]] * 3


async def test_appends_wait_for_a_leader(autojump_clock: Clock) -> None:
    async with Cluster().running(1) as cluster, trio.open_nursery() as nursery:
        nursery.start_soon(cluster.nodes[1].append, [b"early"])
        await trio.sleep(10)
        await cluster.restart(2)
        leader = await cluster.wait_for_leader()
        await cluster.wait_until(lambda: cluster.values(leader) == [b"early"])


async def test_a_lost_producer_id_is_asked_for_again(autojump_clock: Clock) -> None:
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        follower, _ = cluster.others(leader)
        cluster.network.lose_answers(INIT_PRODUCER_ID)
        await follower.append([b"value"])
        assert cluster.network.answers_still_to_lose(INIT_PRODUCER_ID) == 0
        assert cluster.values(leader) == [b"value"]


async def test_appends_in_flight_share_batches_and_keep_their_order(autojump_clock: Clock) -> None:
    async with Cluster().running() as cluster:
        for disk in cluster.disks.values():
            disk.sync_latency = lambda: 0.01
        leader = await cluster.wait_for_leader()
        values = [b"%d" % number for number in range(100)]
        offsets: dict[bytes, int] = {}

        async def append(value: bytes) -> None:
            (offsets[value],) = await leader.append([value])

        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for value in values:
                nursery.start_soon(append, value)
        assert trio.current_time() - begun < 0.1, "a hundred fsyncs of 10 ms would take a second"
        in_log = cluster.values(leader)
        assert sorted(in_log) == sorted(values)
        assert sorted(offsets, key=lambda value: offsets[value]) == in_log


async def test_values_that_fit_no_batch_are_refused(autojump_clock: Clock) -> None:
    async with Cluster(settings={"message.max.bytes": "1000"}).running() as cluster:
        leader = await cluster.wait_for_leader()
        end = leader.log.end_offset
        with pytest.raises(RecordTooLargeError, match=r"message\.max\.bytes"):
            await leader.append([bytes(600), bytes(600)])
        assert leader.log.end_offset == end
        await leader.append([bytes(600)])


async def test_the_application_sees_each_committed_batch_once_in_order(autojump_clock: Clock) -> None:
    """Nothing that was not committed: not even on a leader that had appended it."""
    cluster = Cluster()
    seen: dict[int, list[bytes]] = {id: [] for id in cluster.voter_ids}
    for node_id in cluster.voter_ids:

        async def on_commit(records, node_id=node_id) -> None:
            seen[node_id] += [record.value for record in records]

        cluster.on_commit[node_id] = on_commit
    async with cluster.running(), trio.open_nursery() as nursery:
        old = await cluster.wait_for_leader()
        await old.append([b"1"])
        await old.append([b"2", b"3"])
        await cluster.wait_until_alike()
        cluster.partition({old.key.id}, set(cluster.voter_ids) - {old.key.id})
        nursery.start_soon(old.append, [b"5"])
        new = await cluster.wait_until_other_leads(old)
        await new.append([b"4"])
        assert seen[old.key.id] == [b"1", b"2", b"3"]
        cluster.heal()
        await cluster.wait_until(lambda: all(len(values) == 5 for values in seen.values()))
        assert set(map(tuple, seen.values())) == {(b"1", b"2", b"3", b"4", b"5")}
