"""Invariants of voter changes fire: 12-15 and 24."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.control_records import KRaftVersion, LeaderChange, VotersRecord
from kraft_trio.storage.snapshots.checkpoint import encode_bootstrap_checkpoint
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.fabricated_machine import key_of, voters_of
from tests.simulation.invariant_stories import Stories, Story
from tests.simulation.test_invariants_log import start_epoch

STORIES = Stories()


# 12. At most one uncommitted VotersRecord


@STORIES.of(12)
def two_changes_at_once(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    yield
    cluster.change_voters(1, epoch, voters_of(1, 2, 4))


@STORIES.of(12)
def a_change_and_its_repetition(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2))
    yield
    cluster.change_voters(1, epoch, voters_of(1, 2))


@STORIES.of(12)
def a_change_on_top_of_one_that_an_earlier_leader_left(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.copy(1, 2)
    later = cluster.elect(2, by=[3, 4])
    yield
    cluster.change_voters(2, later, voters_of(1, 2, 3))


# 13. Consecutive sets overlap


@STORIES.of(13)
def a_swap_at_once(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    yield
    cluster.change_voters(1, epoch, voters_of(1, 2, 4))


@STORIES.of(13)
def two_are_added_at_once(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    yield
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4, 5))


@STORIES.of(13)
def a_disk_is_exchanged_in_one_step(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    yield
    cluster.change_voters(1, epoch, voters_of(1, 2, key_of(3, 1)))


@STORIES.of(13, kraft_version=0)
def the_upgrade_brings_another_voter_along(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    yield
    cluster.append(1, epoch, control=[KRaftVersion(1), VotersRecord(voters_of(1, 2, 3, 4, 5))])


# 14. No change before the high watermark is known


@STORIES.of(14)
def a_change_before_anything_is_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.elect(1, by=[2])
    yield
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))


@STORIES.of(14)
def the_bug_of_2015(cluster: FabricatedCluster) -> Iterator[None]:
    """Scenario S1: the earlier leader's change may be committed unseen; this one's set knows nothing of it."""
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    later = cluster.elect(2, by=[3])
    yield
    cluster.change_voters(2, later, voters_of(1, 2))


@STORIES.of(14)
def a_change_in_the_first_batch(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = cluster.stand(1)
    cluster.vote(2, key_of(1), epoch)
    cluster.lead(1, epoch, [key_of(1), key_of(2)])
    yield
    cluster.append(1, epoch, control=[LeaderChange(1, (1, 2, 3), (1, 2)), VotersRecord(voters_of(1, 2))])


# 15. The set in force


@STORIES.of(15)
def a_change_is_not_in_force_when_appended(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    yield
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4), uses=voters_of(1, 2, 3))


@STORIES.of(15)
def a_truncated_change_stays_in_force(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.copy(1, 2)
    yield
    cluster.truncate(2, 1, voters=voters_of(1, 2, 3, 4))


@STORIES.of(15)
def a_truncated_record_of_the_same_voters_stays_in_force(cluster: FabricatedCluster) -> Iterator[None]:
    """The set is the same one; but the next leader would not write it down again."""
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3))
    cluster.copy(1, 2)
    yield
    cluster.truncate(2, 1)


@STORIES.of(15)
def a_truncated_target_stays_in_force(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3), target=(key_of(4),))
    cluster.copy(1, 2)
    yield
    cluster.truncate(2, 1, voters=voters_of(1, 2, 3), voters_offset=0)


@STORIES.of(15)
def a_restart_forgets_the_voters_in_the_log(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.copy(1, 2)
    cluster.end(2)
    yield
    cluster.start(2, voters=voters_of(1, 2, 3))


@STORIES.of(15)
def a_restart_forgets_the_voters_in_the_snapshot(cluster: FabricatedCluster) -> Iterator[None]:
    start_epoch(cluster)
    content = encode_bootstrap_checkpoint(voters_of(1, 2, 3, 4), 1, 0)
    cluster.put_snapshot(2, OffsetAndEpoch(1, 1), content)
    cluster.end(2)
    yield
    cluster.start(2, log_start_offset=1, voters=voters_of(1, 2, 3))


@STORIES.of(15)
def a_snapshot_lacks_a_change_that_it_covers(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.commit_everywhere(1, [2, 3])
    end = cluster.replica(1).log_end
    cluster.put_snapshot(1, OffsetAndEpoch(end, 1), encode_bootstrap_checkpoint(voters_of(1, 2, 3, 4), 1, 0))
    cluster.restart(1)
    cluster.put_snapshot(2, OffsetAndEpoch(end, 1), encode_bootstrap_checkpoint(voters_of(1, 2, 3), 1, 0))
    yield
    cluster.trim(2, end)


@STORIES.of(15, kraft_version=0)
def static_voters_are_not_those_of_the_configuration(cluster: FabricatedCluster) -> Iterator[None]:
    cluster.end(2)
    yield
    cluster.start(2, voters=voters_of(1, 2))


@STORIES.of(15)
def a_leader_counts_by_another_set(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.append(1, epoch, b"value")
    cluster.sync(1)
    cluster.copy(1, 2)
    cluster.count_by(1, voters_of(1, 2))
    yield
    cluster.commit(1, 2)


@STORIES.of(15)
def another_set_is_published_for_good(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    yield
    cluster.checker.finished()


# 24. A reassignment keeps the tolerance


def reassigned(cluster: FabricatedCluster, *target: int) -> int:
    """The epoch of 1, in which 1 2 3 are on the way to that target."""
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3), target=tuple(map(key_of, target)))
    cluster.commit_everywhere(1, [2, 3])
    return epoch


@STORIES.of(24)
def a_voter_goes_before_the_newcomer_comes(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = reassigned(cluster, 1, 2, 4)
    yield
    cluster.change_voters(1, epoch, voters_of(1, 2), target=(key_of(1), key_of(2), key_of(4)))


@STORIES.of(24)
def a_voter_that_keeps_up_goes_instead_of_the_dead_one(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = reassigned(cluster, 1)
    cluster.machines[1].beliefs.lagging.add(key_of(3))
    yield
    cluster.change_voters(1, epoch, voters_of(1, 3), target=(key_of(1),))


def test_lawful_steps_of_a_reassignment_are_silent() -> None:
    cluster = FabricatedCluster()
    target = (key_of(1), key_of(2), key_of(4))
    epoch = reassigned(cluster, 1, 2, 4)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4), target=target)
    cluster.commit_everywhere(1, [2, 3])
    cluster.change_voters(1, epoch, voters_of(1, 2, 4))
    assert not cluster.violations, str(cluster.violations[0])


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()


def moved(voters: VoterSet, node_id: int) -> VoterSet:
    """The same set, with another address for one of them."""
    elsewhere = Endpoints({"CONTROLLER": Endpoint("elsewhere", 1)})
    return VoterSet(attrs.evolve(voter, endpoints=elsewhere) if voter.id == node_id else voter for voter in voters)


def test_lawful_voter_changes_are_silent() -> None:
    """The bootstrap set written down, an addition that is lost and one that is not, a removal, other endpoints."""
    cluster = FabricatedCluster()
    epoch = cluster.stand(1)
    cluster.vote(2, key_of(1), epoch)
    cluster.lead(1, epoch, [key_of(1), key_of(2)])
    first = [LeaderChange(1, (1, 2, 3), (1, 2)), KRaftVersion(1), VotersRecord(voters_of(1, 2, 3))]
    cluster.append(1, epoch, control=first)
    for node_id in (2, 3, 4):
        cluster.follow(node_id, 1, epoch)
    cluster.commit_everywhere(1, [2, 3])
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.copy(1, 4)
    later = cluster.elect(2, by=[3])
    cluster.follow(1, 2, later)
    cluster.truncate(1, 3, voters=voters_of(1, 2, 3), voters_offset=0)
    cluster.restart(4)
    cluster.follow(4, 2, later)
    cluster.truncate(4, 3, voters=voters_of(1, 2, 3), voters_offset=0)
    cluster.commit_everywhere(2, [1, 3, 4])
    for voters in (voters_of(1, 2, 3, 4), moved(voters_of(1, 2, 3, 4), 3), voters_of(2, 3, 4)):
        cluster.change_voters(2, later, voters)
        cluster.commit_everywhere(2, [1, 3, 4])
    last = cluster.elect(4, by=[3])
    for node_id in (1, 2):
        cluster.follow(node_id, 4, last)
    cluster.commit_everywhere(4, [1, 2, 3])
    cluster.change_voters(4, last, voters_of(3, 4))
    cluster.commit_everywhere(4, [1, 2, 3])
    assert not cluster.violations, str(cluster.violations[0])


def test_the_upgrade_from_static_voters_is_silent() -> None:
    cluster = FabricatedCluster(kraft_version=0)
    epoch = start_epoch(cluster, b"value")
    cluster.append(1, epoch, control=[KRaftVersion(1), VotersRecord(voters_of(1, 2, 3))])
    cluster.commit_everywhere(1, [2, 3])
    assert cluster.replica(1).entries[-1].voters is not None
    assert ReplicaKey(1) not in {voter.key for voter in cluster.replica(1).entries[-1].voters}
    assert not cluster.violations, str(cluster.violations[0])
