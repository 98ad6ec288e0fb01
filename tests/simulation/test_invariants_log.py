"""Invariants of the log fire: 5-8."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft_trio.protocol.roles import Resigned, Unattached
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.fabricated_machine import SEGMENT, key_of
from tests.simulation.invariant_stories import Stories, Story

STORIES = Stories()


def start_epoch(cluster: FabricatedCluster, *values: bytes) -> int:
    """Node 1 leads 2 and 3; the values, and the first batch of its epoch, are committed everywhere."""
    epoch = cluster.elect(1, by=[2])
    cluster.follow(3, 1, epoch)
    for value in values:
        cluster.append(1, epoch, value)
    cluster.commit_everywhere(1, [2, 3])
    return epoch


def add_torn_copy(cluster: FabricatedCluster, node_id: int) -> None:
    """Its file now ends with its last batch once more, at the next offset, and with a bit that is wrong."""
    disk = cluster.machines[node_id].disk
    last = cluster.replica(node_id).entries[-1]
    torn = bytearray(disk.files[SEGMENT][last.position :])
    torn[7] = last.next_offset
    torn[-1] ^= 1
    disk.store(SEGMENT, disk.files[SEGMENT] + bytes(torn))


# 5. Log matching


@STORIES.of(5)
def one_offset_and_epoch_with_two_contents(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    yield
    cluster.append(2, epoch, b"other")


@STORIES.of(5)
def a_difference_far_below(cluster: FabricatedCluster) -> Iterator[None]:
    """The batches at the end are the same, byte for byte; the ones before are not."""
    epoch = cluster.elect(1, by=[2])
    cluster.append(1, epoch, b"value")
    cluster.copy(1, 2)
    cluster.follow(3, 1, epoch)
    yield
    cluster.append(3, epoch, b"other")
    cluster.append(3, epoch, b"value")


@STORIES.of(5)
def an_epoch_decreases_along_a_log(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster)
    cluster.elect(2, by=[3])
    yield
    cluster.append(2, 1, b"value")


@STORIES.of(5)
def a_log_recovered_with_other_bytes(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.end(2)
    disk = cluster.machines[2].disk
    content = bytearray(disk.files[SEGMENT])
    content[-1] ^= 1
    disk.store(SEGMENT, bytes(content))
    yield
    cluster.start(2)


@STORIES.of(5)
def a_log_recovered_with_epochs_that_decrease(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster)
    cluster.end(2)
    disk = cluster.machines[2].disk
    batch = bytearray(disk.files[SEGMENT])
    batch[7] = len(cluster.replica(2).entries)
    batch[15] = 0
    disk.store(SEGMENT, disk.files[SEGMENT] + bytes(batch))
    yield
    cluster.start(2)


# 6. A leader only appends, in its own epoch


@STORIES.of(6)
def a_leader_appends_in_another_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    yield
    cluster.append(1, epoch + 1, b"value")


@STORIES.of(6)
def a_resigned_leader_appends(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.become(1, Resigned(epoch))
    yield
    cluster.append(1, epoch, b"value")


@STORIES.of(6)
def a_follower_makes_a_record(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    yield
    cluster.append(2, epoch, b"value")


@STORIES.of(6)
def a_follower_takes_a_record_of_a_later_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster)
    cluster.elect(2, by=[1])
    yield
    cluster.copy(2, 3)


@STORIES.of(6)
def a_leader_truncates(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    yield
    cluster.truncate(1, 1)


@STORIES.of(6)
def a_torn_tail_is_trusted(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.end(2)
    add_torn_copy(cluster, 2)
    yield
    cluster.start(2)


@STORIES.of(6)
def a_leaders_own_torn_tail_is_trusted(cluster: FabricatedCluster) -> Iterator[None]:
    """It may have written what nobody saw before it crashed, but not bytes that its checksum denies."""
    start_epoch(cluster, b"value")
    cluster.end(1)
    add_torn_copy(cluster, 1)
    yield
    cluster.start(1)


# 7. Leader completeness


@STORIES.of(7)
def a_leader_lacks_what_is_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.follow(3, 1, epoch)
    cluster.append(1, epoch, b"value")
    cluster.commit_everywhere(1, [2])
    yield
    cluster.elect(3, by=[2])


@STORIES.of(7)
def a_leader_has_something_else_there(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[3])
    assert cluster.stand(2) == epoch
    cluster.append(1, epoch, b"value")
    cluster.commit_everywhere(1, [3])
    cluster.become(1, Unattached(epoch))
    cluster.violations.clear()
    cluster.elect(2, by=[])
    cluster.append(2, epoch + 1, b"other")
    cluster.become(2, Unattached(epoch + 1))
    cluster.violations.clear()
    yield
    cluster.elect(2, by=[3])


@STORIES.of(7)
def a_deposed_leader_commits_what_its_successor_lacks(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.elect(2, by=[3])
    cluster.append(1, epoch, b"value")
    cluster.sync(1)
    yield
    cluster.commit(1, cluster.replica(1).log_end)


@STORIES.of(7)
def a_vote_for_a_shorter_log(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster, b"value")
    cluster.append(1, epoch, b"other")
    cluster.copy(1, 2)
    later = cluster.stand(3)
    yield
    cluster.vote(2, key_of(3), later)


@STORIES.of(7)
def a_vote_for_a_longer_log_of_an_earlier_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.elect(2, by=[3])
    cluster.copy(2, 3)
    cluster.follow(1, 2, 2)
    later = cluster.stand(1)
    yield
    cluster.vote(3, key_of(1), later, log_end=(1, 99))


@STORIES.of(7)
def a_leader_lacks_what_was_acknowledged(cluster: FabricatedCluster) -> Iterator[None]:
    """Nobody has committed it: only the client was told."""
    epoch = start_epoch(cluster)
    operation = cluster.history.invoke("append", client="a", values=[b"value"])
    cluster.append(1, epoch, b"value")
    cluster.history.succeed(operation, offsets=[1])
    cluster.violations.clear()
    yield
    cluster.elect(3, by=[2])


# 8. State-machine safety


@STORIES.of(8)
def a_high_watermark_beyond_the_log(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    yield
    cluster.commit(2, 3)


@STORIES.of(8)
def two_logs_are_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.append(1, epoch, b"value")
    cluster.commit_everywhere(1, [2])
    cluster.become(3, Unattached(epoch))
    cluster.elect(3, by=[4])
    cluster.append(3, epoch + 1, b"other")
    cluster.violations.clear()
    yield
    cluster.commit(3, 2)


@STORIES.of(8)
def something_uncommitted_is_applied(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    yield
    cluster.apply(1, (1, b"value"))


@STORIES.of(8)
def something_is_applied_twice(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value", b"other")
    cluster.apply(1, (1, b"value"))
    yield
    cluster.apply(1, (1, b"value"))


@STORIES.of(8)
def something_is_left_out(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value", b"other")
    yield
    cluster.apply(1, (2, b"other"))


@STORIES.of(8)
def half_a_batch_is_applied(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value", b"other")
    cluster.commit_everywhere(1, [2, 3])
    yield
    cluster.apply(1, (1, b"value"))


@STORIES.of(8)
def a_snapshot_of_something_uncommitted_is_loaded(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    yield
    cluster.load(1, 2)


@STORIES.of(8)
def a_state_machine_goes_back(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value", b"other")
    cluster.load(1, 2)
    cluster.apply(1, (2, b"other"))
    yield
    cluster.load(1, 2)


@STORIES.of(8)
def two_values_are_applied_at_one_offset(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.apply(1)
    yield
    cluster.apply(2, (1, b"other"))


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_lawful_log_is_silent(kraft_version: int) -> None:
    """Divergence and truncation, a crash that loses unsynced records, a late commit of a deposed leader, restarts."""
    cluster = FabricatedCluster(kraft_version=kraft_version)
    epoch = start_epoch(cluster, b"a", b"b")
    for node_id in (1, 2, 3):
        cluster.apply(node_id)
    cluster.append(1, epoch, b"never committed")
    cluster.restart(1, lose_unsynced=True)

    assert cluster.replica(1).log_end == 3
    epoch = cluster.elect(2, by=[3])
    cluster.follow(1, 2, epoch)
    cluster.fetch_response(cluster.fetch(1, 2, epoch), epoch, -1)
    cluster.commit_everywhere(2, [1, 3])
    cluster.fetch_response(cluster.fetch(1, 2, epoch), epoch, 4)
    for node_id in (1, 2, 3):
        cluster.apply(node_id)
    cluster.append(2, epoch, b"only here")
    cluster.sync(2)
    cluster.append(2, epoch, b"on three")
    cluster.copy(2, 1)
    cluster.sync(2)
    cluster.fetch(1, 2, epoch)
    later = cluster.elect(1, by=[3])
    cluster.commit(2, 6)
    cluster.follow(2, 1, later)
    cluster.commit_everywhere(1, [2, 3])
    for node_id in (2, 3):
        cluster.apply(node_id)
    cluster.append(1, later, b"on one")
    last = cluster.elect(3, by=[2])
    cluster.restart(1)
    cluster.follow(1, 3, last)
    cluster.truncate(1, 7)
    cluster.commit_everywhere(3, [1, 2])
    for node_id in (1, 2, 3):
        cluster.apply(node_id)
    assert not cluster.violations, str(cluster.violations[0])


def test_a_leader_recovers_what_it_wrote_as_it_crashed() -> None:
    """A crash point inside the write: the bytes are there, and nobody was told."""
    cluster = FabricatedCluster()
    start_epoch(cluster)
    unseen = FabricatedCluster()
    entry = unseen.append(1, start_epoch(unseen), b"value")
    content = unseen.machines[1].disk.files[SEGMENT]
    cluster.end(1)
    disk = cluster.machines[1].disk
    disk.store(SEGMENT, disk.files[SEGMENT] + content[entry.position : entry.position + entry.size])
    cluster.start(1)
    assert cluster.replica(1).log_end == 2
    assert not cluster.violations, str(cluster.violations[0])
