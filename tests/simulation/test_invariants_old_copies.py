"""Invariants of old copies of directories fire: 28."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchResponse
from kraft_trio.wire.apis.topics import NO_TOPIC_ID
from tests.simulation.fabricated_cluster import SEGMENT, FabricatedCluster
from tests.simulation.invariant_stories import Stories, Story

STORIES = Stories()


def fetch(cluster: FabricatedCluster, epoch: int) -> None:
    """2 fetches from 1, which answers."""
    sent = cluster.fetch(2, 1, epoch)
    cluster.response(sent, FetchResponse(partitions=(FetchPartitionResponse("log", NO_TOPIC_ID, 0),)))


def with_less(cluster: FabricatedCluster, epoch: int) -> None:
    """2 comes back on an old copy of its directory, with its first batch only, and has fetched once."""
    fetch(cluster, epoch)
    cluster.end(2)
    first, disk = cluster.replica(2).entries[0], cluster.machines[2].disk
    disk.files[SEGMENT] = disk.durable[SEGMENT] = disk.files[SEGMENT][: first.size]
    cluster.facts.old_copies.add(cluster.replica(2).key)
    cluster.restart(2)
    fetch(cluster, epoch)


@STORIES.of(28)
def a_leader_does_not_say_that_an_old_copy_runs(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.append(1, epoch, b"value")
    cluster.commit_everywhere(1, [2])
    with_less(cluster, epoch)
    yield
    fetch(cluster, epoch)


@STORIES.of(28)
def a_leader_says_that_an_old_copy_runs_where_there_is_none(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.commit_everywhere(1, [2])
    yield
    cluster.machines[1].beliefs.old_copies.add(cluster.replica(2).key)
    fetch(cluster, epoch)


def test_old_copy_that_is_told_breaks_nothing() -> None:
    cluster = FabricatedCluster()
    epoch = cluster.elect(1, by=[2])
    cluster.append(1, epoch, b"value")
    cluster.commit_everywhere(1, [2])
    with_less(cluster, epoch)
    cluster.machines[1].beliefs.old_copies.add(cluster.replica(2).key)
    fetch(cluster, epoch)
    assert cluster.violations == []


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()
