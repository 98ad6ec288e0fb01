"""Invariants of elections fire: 1-4, 16 and 17."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from kraft_trio.protocol.roles import (
    Candidate,
    ElectionState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.simulation.invariants.epochs import IN_THE_SAME_EPOCH
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.fabricated_machine import endpoints_of, key_of, voters_of
from tests.simulation.invariant_stories import Stories, Story

STORIES = Stories()


# 1. One leader per epoch


@STORIES.of(1)
def two_leaders_in_one_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    assert cluster.stand(3) == epoch
    yield
    cluster.lead(3, epoch, [key_of(3), key_of(2)])


@STORIES.of(1)
def another_incarnation_leads_the_same_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.end(1)
    cluster.format(1, incarnation=1)
    cluster.start(1)
    yield
    cluster.lead(1, epoch, [key_of(1, 1)])


@STORIES.of(1)
def followers_name_different_leaders(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    yield
    cluster.follow(3, 2, epoch)


@STORIES.of(1)
def another_leader_is_stored_than_published(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.store(3, ElectionState(epoch, 2))
    yield
    cluster.become(3, Follower(epoch, 1, endpoints_of(1)), store=False)


# 2. Epochs never fall; memory equals disk


@STORIES.of(2)
def an_epoch_falls_in_memory(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    yield
    cluster.become(2, Unattached(epoch - 1), store=False)


@STORIES.of(2)
def an_epoch_falls_over_a_restart(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.elect(1, by=[2])
    cluster.end(2)
    cluster.start(2)
    yield
    cluster.become(2, Unattached(0))


@STORIES.of(2)
def a_role_is_published_before_it_is_stored(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.become(2, Unattached(0))
    cluster.vote_request(key_of(1), 2, 0)
    yield
    cluster.become(2, Unattached(0, None, key_of(1)), store=False)


@STORIES.of(2)
def nothing_is_stored_at_all(cluster: FabricatedCluster) -> Iterator[None]:
    yield
    cluster.become(2, Unattached(0), store=False)


@STORIES.of(2)
def a_vote_is_stored_without_its_directory_id(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.become(2, Unattached(0))
    cluster.vote_request(key_of(1), 2, 0)
    cluster.store(2, ElectionState(0, None, ReplicaKey(1)))
    yield
    cluster.become(2, Unattached(0, None, key_of(1)), store=False)


# 3. One vote per epoch


@STORIES.of(3)
def two_votes_in_one_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    assert cluster.stand(3) == epoch
    cluster.vote(2, key_of(1), epoch)
    cluster.vote_request(key_of(3), 2, epoch)
    yield
    cluster.become(2, Unattached(epoch, None, key_of(3)))


@STORIES.of(3)
def a_vote_for_another_incarnation_of_the_same_id(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    cluster.vote(2, key_of(1), epoch)
    cluster.end(1)
    cluster.format(1, incarnation=1)
    cluster.start(1)
    cluster.become(1, Unattached(epoch))
    cluster.vote_request(key_of(1, 1), 2, epoch)
    yield
    cluster.become(2, Unattached(epoch, None, key_of(1, 1)))


@STORIES.of(3)
def two_votes_over_a_restart(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    assert cluster.stand(3) == epoch
    cluster.vote(2, key_of(1), epoch)
    cluster.end(2)
    cluster.start(2)
    cluster.vote_request(key_of(3), 2, epoch)
    yield
    cluster.become(2, Unattached(epoch, None, key_of(3)))


@STORIES.of(3)
def a_vote_is_dropped(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    yield
    cluster.become(2, Prospective(epoch, 1, endpoints_of(1), voted=None))


@STORIES.of(3)
def a_candidate_drops_its_vote_for_itself(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    yield
    cluster.become(1, Prospective(epoch))


@STORIES.of(3)
def a_vote_is_answered_before_it_is_stored(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    cluster.become(2, Unattached(epoch))
    request = cluster.vote_request(key_of(1), 2, epoch)
    yield
    cluster.vote_response(request, granted=True)


@STORIES.of(3)
def a_vote_is_granted_to_one_and_stored_for_another(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    assert cluster.stand(3) == epoch
    cluster.vote(2, key_of(1), epoch)
    request = cluster.vote_request(key_of(3), 2, epoch)
    yield
    cluster.vote_response(request, granted=True)


@STORIES.of(3)
def a_leader_grants_a_vote_in_its_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    assert cluster.stand(3) == epoch
    request = cluster.vote_request(key_of(3), 1, epoch)
    yield
    cluster.vote_response(request, granted=True)


@STORIES.of(3)
def a_pre_vote_is_stored_as_a_vote(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.become(2, Unattached(0))
    cluster.become(1, Unattached(0))
    cluster.become(1, Prospective(0))
    cluster.vote_request(key_of(1), 2, 0, pre_vote=True)
    yield
    cluster.become(2, Unattached(0, None, key_of(1)))


# 4. A restarted leader resumes as Resigned


@STORIES.of(4)
def a_restarted_leader_leads_again(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.end(1)
    cluster.start(1)
    yield
    cluster.lead(1, epoch, [key_of(1), key_of(2)])


@STORIES.of(4)
def a_restarted_leader_campaigns_in_its_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.end(1)
    cluster.start(1)
    yield
    cluster.become(1, Candidate(epoch), store=False)


@STORIES.of(4)
def a_leader_gives_an_offset_twice(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.append(1, epoch, b"first")
    yield
    cluster.append(1, epoch, b"second", base_offset=1)


# 16. Only members campaign


@STORIES.of(16)
def an_observer_asks_for_pre_votes(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.follow(4, 1, epoch)
    yield
    cluster.become(4, Prospective(epoch, 1, endpoints_of(1)))


@STORIES.of(16)
def a_removed_voter_campaigns(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.follow(3, 1, epoch)
    cluster.commit_everywhere(1, [2, 3])
    cluster.change_voters(1, epoch, voters_of(1, 2))
    cluster.commit_everywhere(1, [2, 3])
    yield
    cluster.become(3, Prospective(epoch, 1, endpoints_of(1)))


@STORIES.of(16)
def a_voter_removed_by_the_set_before_the_newest_campaigns(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.follow(3, 1, epoch)
    cluster.commit_everywhere(1, [2, 3])
    # While it does not know that its removal is committed, it may still be needed.
    cluster.change_voters(1, epoch, voters_of(1, 2))
    cluster.copy(1, 3)
    cluster.become(3, Prospective(epoch, 1, endpoints_of(1)))
    cluster.follow(3, 1, epoch)
    cluster.commit_everywhere(1, [2])
    cluster.change_voters(1, epoch, voters_of(1))
    cluster.copy(1, 3)
    yield
    cluster.become(3, Prospective(epoch, 1, endpoints_of(1)))


@STORIES.of(16)
def a_new_incarnation_campaigns_as_the_old_one(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    cluster.append(1, epoch, b"value")
    cluster.change_voters(1, epoch, voters_of(1, 2, 3))
    cluster.end(3)
    cluster.format(3, incarnation=1)
    cluster.start(3)
    cluster.follow(3, 1, epoch)
    cluster.copy(1, 3)
    yield
    cluster.become(3, Prospective(epoch, 1, endpoints_of(1)))


# 17. Roles change along the table

ROLES: tuple[Role, ...] = (
    Unattached(2),
    Prospective(2),
    Candidate(2),
    Follower(2, 1, endpoints_of(1)),
    Leader(2, 0),
    Resigned(2),
)


@STORIES.of(17)
def a_process_begins_as_leader(cluster: FabricatedCluster) -> Iterator[None]:
    yield
    cluster.lead(1, 1)


@STORIES.of(17)
def a_candidate_that_no_pre_vote_made(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    yield
    cluster.become(2, Candidate(epoch + 1))


@STORIES.of(17)
def a_candidate_that_skips_an_epoch(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.become(2, Unattached(0))
    cluster.become(2, Prospective(0))
    yield
    cluster.become(2, Candidate(2))


@STORIES.of(17)
def a_known_leader_is_forgotten(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    yield
    cluster.become(2, Prospective(epoch, voted=key_of(1)))


@pytest.mark.parametrize("old", ROLES, ids=lambda role: type(role).__name__)
@pytest.mark.parametrize("new", ROLES, ids=lambda role: type(role).__name__)
def test_every_role_change_in_an_epoch_is_in_the_table_or_found(old: Role, new: Role) -> None:
    cluster = FabricatedCluster()
    cluster.become(2, old)
    cluster.violations.clear()
    new = attrs.evolve(new, leader_id=1) if isinstance(old, Follower) and hasattr(new, "leader_id") else new
    cluster.become(2, attrs.evolve(new))
    is_found = any(violation.invariant == 17 for violation in cluster.violations)
    assert is_found == (type(new) not in IN_THE_SAME_EPOCH[type(old)])


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()


def test_lawful_elections_are_silent() -> None:
    """Split votes, pre-votes lost and won, restarts of everybody, a resignation, a vote asked for twice."""
    cluster = FabricatedCluster()
    epoch = cluster.stand(1)
    assert cluster.stand(3) == epoch
    cluster.become(1, Prospective(epoch, voted=key_of(1)))
    cluster.become(3, Prospective(epoch, voted=key_of(3)))
    cluster.become(3, Unattached(epoch, None, key_of(3)))
    cluster.become(1, Candidate(epoch + 1))
    cluster.vote(2, key_of(1), epoch + 1)
    cluster.vote_response(cluster.vote_request(key_of(1), 2, epoch + 1), granted=True)
    cluster.lead(1, epoch + 1, [key_of(1), key_of(2)])
    cluster.follow(3, 1, epoch + 1)
    cluster.follow(2, 1, epoch + 1)
    cluster.become(2, Follower(epoch + 1, 1, endpoints_of(1), key_of(1), has_fetched=True))
    for node_id in (1, 2, 3):
        cluster.end(node_id)
        cluster.start(node_id)
    cluster.become(1, Resigned(epoch + 1))
    cluster.become(1, Unattached(epoch + 2))
    cluster.become(3, Follower(epoch + 1, 1, endpoints_of(1)))
    cluster.become(2, Follower(epoch + 1, 1, endpoints_of(1), key_of(1)))
    cluster.become(3, Prospective(epoch + 1, 1, endpoints_of(1)))
    cluster.become(3, Candidate(epoch + 2))
    cluster.end(3)
    cluster.start(3)
    cluster.become(3, Candidate(epoch + 2))
    late = cluster.vote_request(key_of(3), 2, epoch + 2)
    cluster.become(2, Unattached(epoch + 2, None, key_of(3)))
    cluster.become(2, Prospective(epoch + 2, None, Endpoints(), key_of(3)))
    cluster.become(2, Candidate(epoch + 3))
    cluster.vote_response(late, granted=True)
    cluster.lead(3, epoch + 2, [key_of(3), key_of(2)])
    assert not cluster.violations, str(cluster.violations[0])


def test_lawful_static_elections_are_silent() -> None:
    """At kraft.version 0 quorum-state keeps the id of a vote alone, and a restarted voter knows no more."""
    cluster = FabricatedCluster(kraft_version=0)
    epoch = cluster.stand(1)
    cluster.vote(2, key_of(1), epoch)
    cluster.end(2)
    cluster.start(2)
    cluster.become(2, Unattached(epoch, None, ReplicaKey(1)))
    cluster.vote_response(cluster.vote_request(key_of(1), 2, epoch), granted=True)
    cluster.lead(1, epoch, [key_of(1), ReplicaKey(2)])
    assert not cluster.violations, str(cluster.violations[0])
