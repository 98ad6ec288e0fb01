"""Invariants of what is committed fire: 9, 10, 11 and 20."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.fabricated_machine import SEGMENT, voters_of
from tests.simulation.invariant_stories import Stories, Story
from tests.simulation.test_invariants_log import start_epoch

STORIES = Stories()


# 9. The high watermark never falls


@STORIES.of(9)
def a_high_watermark_falls(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    yield
    cluster.commit(2, 1)


@STORIES.of(9)
def a_high_watermark_falls_below_what_the_node_says_it_was(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.end(2)
    cluster.start(2)
    yield
    cluster.commit(2, 1, old=2)


@STORIES.of(9)
def a_new_leader_begins_below_what_the_last_one_committed(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value", b"other")
    cluster.restart(2)
    cluster.elect(2, by=[3])
    yield
    cluster.commit(2, 1)


@STORIES.of(9)
def a_deposed_leader_overtakes_its_successor(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.elect(2, by=[3])
    cluster.commit_everywhere(2, [3])
    for value in (b"a", b"b", b"c"):
        cluster.append(1, epoch, value)
    yield
    cluster.commit(1, 4)


@STORIES.of(9)
def truncation_below_the_high_watermark(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    yield
    cluster.truncate(2, 1)


@STORIES.of(9)
def truncation_of_what_is_committed_unknown_to_the_node(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.restart(2)
    yield
    cluster.truncate(2, 1)


# 10. The high watermark of the epoch


@STORIES.of(10)
def a_leader_commits_by_a_record_of_an_earlier_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    """Figure 8 of the Raft paper."""
    epoch = cluster.elect(1, by=[2])
    cluster.append(1, epoch, b"value")
    cluster.copy(1, 2)
    cluster.sync(1)
    cluster.elect(2, by=[3])
    cluster.copy(2, 3, up_to=2)
    yield
    cluster.commit(2, 2)


@STORIES.of(10)
def a_follower_learns_of_an_earlier_epochs_high_watermark(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.restart(3)
    cluster.elect(2, by=[3])
    yield
    cluster.commit(3, 2)


@STORIES.of(10)
def a_leader_tells_an_earlier_epochs_high_watermark(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    epoch = cluster.elect(2, by=[3])
    request = cluster.fetch(3, 2, epoch)
    yield
    cluster.fetch_response(request, epoch, 2)


# 11. Commit by majority


@STORIES.of(11)
def a_commit_with_one_copy(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    cluster.sync(1)
    yield
    cluster.commit(1, 2)


@STORIES.of(11)
def an_unsynced_copy_is_counted(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    cluster.copy(1, 2)
    yield
    cluster.commit(1, 2)


@STORIES.of(11)
def an_observer_is_counted(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.follow(4, 1, epoch)
    cluster.append(1, epoch, b"value")
    cluster.sync(1)
    cluster.copy(1, 4)
    cluster.fetch(4, 1, epoch)
    yield
    cluster.commit(1, 2)


@STORIES.of(11)
def a_new_incarnation_is_counted_for_a_voter(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.end(2)
    cluster.format(2, incarnation=1)
    cluster.start(2)
    cluster.follow(2, 1, epoch)
    cluster.append(1, epoch, b"value")
    cluster.sync(1)
    cluster.copy(1, 2)
    cluster.fetch(2, 1, epoch)
    yield
    cluster.commit(1, 2)


@STORIES.of(11)
def a_leader_outside_the_set_counts_itself(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(2, 3))
    cluster.sync(1)
    cluster.copy(1, 2)
    cluster.fetch(2, 1, epoch)
    yield
    cluster.commit(1, 2)


@STORIES.of(11)
def a_voter_change_is_counted_by_the_old_set(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.sync(1)
    cluster.copy(1, 2)
    cluster.fetch(2, 1, epoch)
    yield
    cluster.commit(1, 2)


@STORIES.of(11)
def another_batch_at_the_same_offset_is_counted(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.copy(1, 2)
    cluster.append(1, epoch, b"value")
    cluster.sync(1)
    cluster.elect(2, by=[3])
    cluster.sync(2)
    yield
    cluster.commit(1, 2)


@STORIES.of(11)
def a_disk_that_was_replaced_had_claimed_less(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    cluster.sync(1)
    cluster.copy(1, 2)
    cluster.end(2)
    cluster.format(2, incarnation=1)
    yield
    cluster.commit(1, 2)


@STORIES.of(11)
def a_follower_takes_for_committed_what_no_leader_has(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    cluster.copy(1, 2)
    yield
    cluster.commit(2, 2)


# 20. The leader's idea of a follower's offset


@STORIES.of(20)
def a_follower_fetches_before_it_has_synced(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    entry = cluster.append(1, epoch, b"value")
    content = cluster.machines[1].disk.files[SEGMENT]
    cluster.append_bytes(2, content[entry.position : entry.position + entry.size])
    yield
    cluster.fetch(2, 1, epoch)


@STORIES.of(20)
def a_leader_believes_more_than_it_was_told(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    cluster.fetch(2, 1, epoch, believed=2)
    yield
    cluster.sync(1)


@STORIES.of(20)
def a_leader_believes_what_it_was_told_in_another_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster)
    cluster.fetch(3, 2, 1)
    cluster.elect(2, by=[3])
    yield
    cluster.sync(2)


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()


def test_what_a_replaced_disk_had_claimed_still_counts() -> None:
    """It can vote for nobody any more, so every majority that can elect holds the record still."""
    cluster = FabricatedCluster()
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    cluster.sync(1)
    cluster.copy(1, 2)
    cluster.fetch(2, 1, epoch)
    cluster.end(2)
    cluster.format(2, incarnation=1)
    cluster.commit(1, 2)
    assert not cluster.violations, str(cluster.violations[0])
