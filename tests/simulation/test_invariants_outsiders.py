"""Invariants of who must not count fire: 22, dead incarnations, and 23, strangers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft_trio.protocol.roles import (
    Candidate,
    Prospective,
    Unattached,
)
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.wire.api import VOTE
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.fabricated_machine import key_of
from tests.simulation.invariant_stories import Stories, Story

STORIES = Stories()


# 22. A dead incarnation is never counted


@STORIES.of(22)
def a_leader_without_a_majority(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    yield
    cluster.lead(1, epoch, [key_of(1)])


@STORIES.of(22)
def an_observer_is_counted(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    cluster.vote(4, key_of(1), epoch)
    yield
    cluster.lead(1, epoch, [key_of(1), key_of(4)])


@STORIES.of(22)
def a_dead_incarnation_is_counted(cluster: FabricatedCluster) -> Iterator[None]:
    """Scenario S2: its successor, on a blank disk, votes; what counts is named by the dead one's key."""
    cluster.end(2)
    cluster.format(2, incarnation=1)
    cluster.start(2)
    epoch = cluster.stand(1)
    cluster.vote(2, key_of(1), epoch)
    yield
    cluster.lead(1, epoch, [key_of(1), key_of(2)])


@STORIES.of(22)
def a_new_incarnation_is_counted_as_a_member(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.end(2)
    cluster.format(2, incarnation=1)
    cluster.start(2)
    epoch = cluster.stand(1)
    cluster.vote(2, key_of(1), epoch)
    cluster.vote(3, key_of(1), epoch)
    yield
    cluster.lead(1, epoch, [key_of(1), key_of(3), key_of(2, 1)])


@STORIES.of(22)
def a_pre_vote_is_counted(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.become(2, Unattached(0))
    cluster.become(1, Unattached(0))
    cluster.become(1, Prospective(0))
    cluster.vote_response(cluster.vote_request(key_of(1), 2, 0, pre_vote=True), granted=True)
    cluster.become(1, Candidate(1))
    yield
    cluster.lead(1, 1, [key_of(1), key_of(2)])


@STORIES.of(22, kraft_version=0)
def a_static_voter_that_never_voted_is_counted(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    yield
    cluster.lead(1, epoch, [key_of(1), ReplicaKey(2)])


@STORIES.of(22)
def a_fetch_under_another_directory_id(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    yield
    cluster.fetch(2, 1, epoch, key=key_of(2, 1))


@STORIES.of(22)
def a_vote_request_without_the_directory_id(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    cluster.become(2, Unattached(epoch))
    yield
    cluster.vote_request(ReplicaKey(1), 2, epoch)


# 23. Nothing from strangers


@STORIES.of(23)
def an_epoch_that_nobody_began(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    yield
    cluster.become(2, Unattached(epoch + 7))


@STORIES.of(23)
def a_restart_into_an_epoch_that_nobody_began(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.end(2)
    cluster.start(2)
    yield
    cluster.become(2, Unattached(epoch + 2))


@STORIES.of(23)
def a_value_that_nobody_asked_for(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.history.is_complete = True
    epoch = cluster.elect(1, by=[2])
    cluster.history.invoke("append", client="a", values=[b"asked for"])
    cluster.append(1, epoch, b"asked for")
    cluster.commit_everywhere(1, [2])
    cluster.append(1, epoch, b"not asked for")
    yield
    cluster.commit_everywhere(1, [2])


@STORIES.of(23)
def a_request_of_another_cluster_is_served(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    value = VoteRequest("another-cluster", 1, "log", 0, key_of(9), epoch + 5, key_of(1).directory_id, 9, 9)
    request = cluster.request(VOTE, value, "client-stranger", "node-1")
    yield
    cluster.response(request, VoteResponse(vote_granted=False))


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()
