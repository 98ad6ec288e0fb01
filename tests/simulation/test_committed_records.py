"""What is committed, as read from the replicas' own files."""

from __future__ import annotations

import pytest
import trio

from kraft_trio.simulation.cluster import Cluster, simulate
from kraft_trio.simulation.facts.committed import CommittedRecords
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script


def test_values_are_found_by_offset_and_value_and_gaps_are_empty() -> None:
    committed = CommittedRecords()
    committed.advance(2)
    committed.append([b"x", b"y"], 2)
    committed.append([b"x"], 6)
    committed.advance(9)
    assert [committed.value_at(offset) for offset in range(10)] == [
        *(None, None, b"x", b"y", None, None, b"x", None, None, None)
    ]
    assert list(committed.offsets_of(b"x")) == [2, 6]
    assert list(committed.offsets_of(b"z")) == []
    assert committed.between(3, 6) == [(3, b"y")]
    assert committed.between(3, 7) == [(3, b"y"), (6, b"x")]
    assert [committed.end_of_values(end) for end in range(10)] == [0, 0, 0, 3, 4, 4, 4, 7, 7, 7]
    assert committed.end == 9


def test_what_is_committed_does_not_go_back() -> None:
    committed = CommittedRecords()
    committed.append([b"x"], 4)
    committed.advance(3)
    assert committed.end == 5
    with pytest.raises(AssertionError):
        committed.append([b"y"], 4)


def follow(committed: CommittedRecords, replica: Replica, high_watermark: int) -> None:
    committed.follow(replica.entries_from(committed.end), high_watermark, replica.device.content.peek)


def test_a_replicas_log_above_the_high_watermark_is_uncommitted() -> None:
    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        (first,) = await leader.append([b"committed"])
        cluster.partition([leader.config.node_id], [id for id in cluster.machines if id != leader.config.node_id])
        cluster.nursery.start_soon(leader.append, [b"on one log only"])
        await cluster.wait_until(lambda: leader.log.end_offset > first + 1)
        replica = cluster.replica_of(leader.key)
        committed = CommittedRecords()
        follow(committed, replica, leader.high_watermark or 0)
        assert committed.between(0, 100) == [(first, b"committed")]
        assert committed.end == leader.high_watermark == first + 1
        follow(committed, replica, replica.log_end)
        assert [value for _, value in committed.between(0, 100)] == [b"committed", b"on one log only"]

    simulate(main)


def test_a_batch_damaged_on_one_disk_is_read_from_another() -> None:
    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        offsets = [*await leader.append([b"one"]), *await leader.append([b"two"])]
        await cluster.wait_until_alike()
        rotten, sound = cluster.facts.replicas[0], cluster.facts.replicas[1]
        entry = rotten.entry_at(offsets[0])
        assert entry is not None
        cluster.machines[rotten.key.id].disk.damage(entry.path, entry.position + entry.size - 2)
        committed = CommittedRecords()
        follow(committed, rotten, rotten.log_end)
        assert (committed.end, committed.between(0, 100)) == (offsets[0], [])
        follow(committed, sound, sound.log_end)
        assert committed.between(0, 100) == list(zip(offsets, (b"one", b"two"), strict=True))
        await trio.lowlevel.checkpoint()

    simulate(main)


DAMAGED_WHERE_IT_COMMITS = """\
seed 91292
voters 1 2 3
set kraft.read.lease.max.clock.drift.ppm 200000
clients 3
at 1500ms
requests-only 3 -> 1
at 1900ms
restart 2
at 3s
rot 3
at 3413ms
recover
"""
"""All have a batch of an earlier leader's.  The new leader's copy rots before it learns that it is committed."""


def test_a_batch_damaged_where_it_commits_is_read_from_another() -> None:
    assert run_script(parse_script(DAMAGED_WHERE_IT_COMMITS)).failure is None
