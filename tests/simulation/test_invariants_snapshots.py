"""Invariants of snapshots and states fire: 18 and 19."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.snapshots.checkpoint import encode_bootstrap_checkpoint
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.fabricated_machine import voters_of
from tests.simulation.invariant_stories import Stories, Story
from tests.simulation.test_invariants_log import start_epoch

STORIES = Stories()


# 18. Snapshots cover what the log has lost


@STORIES.of(18)
def a_log_that_begins_above_0_without_a_snapshot(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.end(2)
    yield
    cluster.start(2, log_start_offset=1)


@STORIES.of(18)
def a_log_that_begins_behind_its_snapshot(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.put_snapshot(2, OffsetAndEpoch(1, 1))
    cluster.end(2)
    yield
    cluster.start(2, log_start_offset=2)


@STORIES.of(18)
def a_snapshot_without_its_footer(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    whole = encode_bootstrap_checkpoint(voters_of(1, 2, 3), 1, 0)
    cluster.end(2)
    cluster.put_snapshot(2, OffsetAndEpoch(1, 1), whole[: len(whole) // 2])
    yield
    cluster.start(2, log_start_offset=1, voters=voters_of(1, 2, 3))


@STORIES.of(18)
def a_log_that_is_trimmed_past_its_snapshot(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value", b"other")
    cluster.put_snapshot(2, OffsetAndEpoch(2, 1))
    cluster.trim(2, 2)
    yield
    cluster.trim(2, 3)


@STORIES.of(18)
def a_log_that_is_trimmed_before_its_snapshot_is_durable(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.put_snapshot(2, OffsetAndEpoch(2, 1))
    cluster.machines[2].disk.durable.popitem()
    yield
    cluster.trim(2, 2)


def put_two_snapshots(cluster: FabricatedCluster) -> None:
    start_epoch(cluster, b"value")
    for offset in (1, 2):
        cluster.put_snapshot(2, OffsetAndEpoch(offset, 1))


@STORIES.of(18)
def a_snapshot_that_was_damaged_when_the_log_was_opened_is_all_there_is(cluster: FabricatedCluster) -> Iterator[None]:
    put_two_snapshots(cluster)
    cluster.rot(2, OffsetAndEpoch(2, 1))
    cluster.restart(2)
    cluster.trim(2, 1)
    yield
    cluster.trim(2, 2)


@STORIES.of(18)
def a_snapshot_known_to_be_damaged_is_all_there_is(cluster: FabricatedCluster) -> Iterator[None]:
    put_two_snapshots(cluster)
    cluster.rot(2, OffsetAndEpoch(2, 1))
    cluster.trim(2, 1)
    cluster.notice(2, OffsetAndEpoch(2, 1))
    yield
    cluster.trim(2, 2)


@STORIES.of(18)
def a_log_that_begins_behind_its_damaged_snapshot(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.put_snapshot(2, OffsetAndEpoch(2, 1))
    cluster.rot(2, OffsetAndEpoch(2, 1))
    cluster.end(2)
    yield
    cluster.start(2, log_start_offset=2)


@STORIES.of(18)
def a_snapshot_of_what_is_not_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster, b"value")
    cluster.append(1, epoch, b"other")
    cluster.put_snapshot(1, OffsetAndEpoch(3, epoch))
    yield
    cluster.apply(1)


@STORIES.of(18)
def a_snapshot_of_another_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster, b"value")
    cluster.put_snapshot(1, OffsetAndEpoch(2, epoch + 1))
    yield
    cluster.end(1)


@STORIES.of(18)
def a_snapshot_that_is_found_at_the_end_only(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster, b"value")
    cluster.put_snapshot(1, OffsetAndEpoch(9, epoch))
    yield
    cluster.checker.finished()


@STORIES.of(18)
def a_leader_asks_for_a_snapshot(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster)
    yield
    cluster.fetch_snapshot(1, 2)


# 19. Equal snapshots, equal states


@STORIES.of(19)
def two_snapshots_of_one_id(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.put_snapshot(1, OffsetAndEpoch(2, 1))
    cluster.apply(1)
    cluster.put_snapshot(2, OffsetAndEpoch(2, 1), encode_bootstrap_checkpoint(voters_of(1, 2, 3), 1, timestamp_ms=1))
    yield
    cluster.end(2)


@STORIES.of(19)
def a_snapshot_that_changes(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.put_snapshot(1, OffsetAndEpoch(2, 1))
    cluster.restart(1)
    cluster.put_snapshot(1, OffsetAndEpoch(2, 1), encode_bootstrap_checkpoint(voters_of(1, 2, 3), 1, timestamp_ms=1))
    yield
    cluster.checker.finished()


@STORIES.of(19)
def a_snapshot_that_lacks_a_value(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value", b"other")
    cluster.restore(1, 3, b"value", b"other")
    yield
    cluster.restore(2, 3, b"other")


@STORIES.of(19)
def a_snapshot_that_has_another_value(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value", b"other")
    yield
    cluster.restore(2, 3, b"other", b"value")


@STORIES.of(19)
def two_states_at_one_offset(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster, b"value")
    cluster.apply(1)
    yield
    cluster.apply(2, (1, b"other"))


@STORIES.of(19)
def a_state_that_has_seen_more(cluster: FabricatedCluster) -> Iterator[None]:
    """The values at the end agree; what came before them does not."""
    start_epoch(cluster, b"value", b"other")
    cluster.apply(1)
    yield
    cluster.apply(2, (2, b"other"))


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()


def test_a_log_that_begins_at_its_snapshot_is_silent() -> None:
    cluster = FabricatedCluster()
    start_epoch(cluster, b"value")
    cluster.put_snapshot(2, OffsetAndEpoch(2, 1))
    cluster.end(2)
    cluster.start(2, log_start_offset=2)
    cluster.fetch_snapshot(3, 1)
    assert not cluster.violations, str(cluster.violations[0])


def test_damage_that_nobody_can_have_noticed_breaks_no_rule() -> None:
    """A snapshot is read to its end when the log is opened, not before each trim: the medium may be faster."""
    cluster = FabricatedCluster()
    put_two_snapshots(cluster)
    cluster.rot(2, OffsetAndEpoch(2, 1))
    cluster.trim(2, 2)
    assert not cluster.violations, str(cluster.violations[0])
