"""The invariant of clients fires: 21."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.facts.history import (
    ADD_VOTER,
    CANCEL_REASSIGNMENT,
    REASSIGN,
    REMOVE_VOTER,
    UPGRADE,
    Operation,
)
from kraft_trio.storage.batches.control_records import KRaftVersion, VotersRecord
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.fabricated_machine import key_of, voters_of
from tests.simulation.invariant_stories import Stories, Story
from tests.simulation.test_invariants_log import start_epoch

STORIES = Stories()


# 21. What clients were told


def appending(cluster: FabricatedCluster, *values: bytes) -> Operation:
    return cluster.history.invoke("append", client="a", values=values)


def reading(cluster: FabricatedCluster, from_offset: int = 0) -> Operation:
    return cluster.history.invoke("read", client="b", from_offset=from_offset, is_linearizable=True)


def written(cluster: FabricatedCluster, *values: bytes) -> int:
    """Node 1 leads; the values are committed from offset 1 on and acknowledged to their client.  The epoch."""
    epoch = start_epoch(cluster)
    for offset, value in enumerate(values, 1):
        operation = appending(cluster, value)
        cluster.append(1, epoch, value)
        cluster.commit_everywhere(1, [2, 3])
        cluster.history.succeed(operation, offsets=[offset])
    return epoch


@STORIES.of(21)
def an_acknowledgement_before_the_commit(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    operation = appending(cluster, b"value")
    cluster.append(1, epoch, b"value")
    yield
    cluster.history.succeed(operation, offsets=[1])


@STORIES.of(21)
def an_acknowledgement_of_a_value_that_is_not_there(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    operation = appending(cluster, b"value")
    cluster.append(1, epoch, b"other")
    cluster.commit_everywhere(1, [2, 3])
    yield
    cluster.history.succeed(operation, offsets=[1])


@STORIES.of(21)
def an_acknowledgement_at_the_wrong_offset(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    operation = appending(cluster, b"value")
    cluster.append(1, epoch, b"value")
    cluster.append(1, epoch, b"other")
    cluster.commit_everywhere(1, [2, 3])
    yield
    cluster.history.succeed(operation, offsets=[2])


@STORIES.of(21)
def a_value_takes_effect_twice(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = written(cluster, b"value")
    cluster.append(1, epoch, b"value")
    yield
    cluster.commit_everywhere(1, [2, 3])


@STORIES.of(21)
def a_value_that_was_given_up_takes_effect_twice(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    operation = appending(cluster, b"value")
    cluster.append(1, epoch, b"value")
    cluster.append(1, epoch, b"value")
    cluster.history.lose(operation, "no answer")
    yield
    cluster.commit_everywhere(1, [2, 3])


@STORIES.of(21)
def a_failed_append_takes_effect_later(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.history.fail(appending(cluster, b"value"), "refused")
    cluster.append(1, epoch, b"value")
    yield
    cluster.commit_everywhere(1, [2, 3])


@STORIES.of(21)
def an_append_fails_that_has_taken_effect(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    operation = appending(cluster, b"value")
    cluster.append(1, epoch, b"value")
    cluster.commit_everywhere(1, [2, 3])
    yield
    cluster.history.fail(operation, "refused")


@STORIES.of(21)
def half_of_an_append_takes_effect(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.history.lose(appending(cluster, b"value", b"other"), "no answer")
    cluster.append(1, epoch, b"value")
    yield
    cluster.commit_everywhere(1, [2, 3])


@STORIES.of(21)
def an_append_takes_effect_before_one_that_had_ended(cluster: FabricatedCluster) -> Iterator[None]:
    """Both stand where they were told, so nothing but the order is wrong."""
    epoch = start_epoch(cluster)
    first = appending(cluster, b"first")
    cluster.append(1, epoch, b"second")
    cluster.append(1, epoch, b"first")
    cluster.commit_everywhere(1, [2, 3])
    cluster.history.succeed(first, offsets=[2])
    second = cluster.history.invoke("append", client="b", values=[b"second"])
    yield
    cluster.history.succeed(second, offsets=[1])


@STORIES.of(21)
def a_read_misses_an_acknowledged_write(cluster: FabricatedCluster) -> Iterator[None]:
    written(cluster, b"first", b"second")
    read = reading(cluster)
    yield
    cluster.history.succeed(read, offsets=[1], values=[b"first"], end_offset=2)


@STORIES.of(21)
def a_read_misses_what_another_has_read(cluster: FabricatedCluster) -> Iterator[None]:
    """Nobody was told that the write succeeded; but somebody saw it."""
    epoch = written(cluster, b"first")
    appending(cluster, b"second")
    cluster.append(1, epoch, b"second")
    cluster.commit_everywhere(1, [2, 3])
    cluster.history.succeed(reading(cluster, 2), offsets=[2], values=[b"second"], end_offset=3)
    read = reading(cluster)
    yield
    cluster.history.succeed(read, offsets=[1], values=[b"first"], end_offset=2)


@STORIES.of(21)
def a_read_has_a_gap(cluster: FabricatedCluster) -> Iterator[None]:
    written(cluster, b"first", b"second", b"third")
    read = reading(cluster)
    yield
    cluster.history.succeed(read, offsets=[1, 3], values=[b"first", b"third"], end_offset=4)


@STORIES.of(21)
def a_read_of_what_is_not_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = written(cluster, b"first")
    cluster.append(1, epoch, b"second")
    read = reading(cluster)
    yield
    cluster.history.succeed(read, offsets=[1, 2], values=[b"first", b"second"], end_offset=3)


@STORIES.of(21)
def a_write_of_unknown_fate_lands_before_what_had_ended(cluster: FabricatedCluster) -> Iterator[None]:
    """Nobody says where it took effect but the log, so that only the whole history shows it."""
    epoch = start_epoch(cluster)
    first = appending(cluster, b"first")
    cluster.append(1, epoch, b"second")
    cluster.append(1, epoch, b"first")
    cluster.commit_everywhere(1, [2, 3])
    cluster.history.succeed(first, offsets=[2])
    cluster.history.lose(cluster.history.invoke("append", client="b", values=[b"second"]), "no answer")
    yield
    cluster.checker.finished()


def asking(cluster: FabricatedCluster, kind: str, node_id: int) -> Operation:
    operation = cluster.history.invoke(kind, client="admin", subject=str(node_id))
    operation.voter = key_of(node_id)
    return operation


@STORIES.of(21)
def a_voter_change_is_acknowledged_before_it_is_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    operation = asking(cluster, ADD_VOTER, 4)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    yield
    cluster.history.succeed(operation)


@STORIES.of(21)
def a_removal_is_acknowledged_by_a_change_of_another_voter(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    operation = asking(cluster, REMOVE_VOTER, 3)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.follow(4, 1, epoch)
    cluster.commit_everywhere(1, [2, 3, 4])
    yield
    cluster.history.succeed(operation)


@STORIES.of(21)
def a_voter_change_is_acknowledged_that_was_undone_before_it_was_asked_for(
    cluster: FabricatedCluster,
) -> Iterator[None]:
    epoch = start_epoch(cluster)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.follow(4, 1, epoch)
    cluster.commit_everywhere(1, [2, 3, 4])
    cluster.change_voters(1, epoch, voters_of(1, 2, 3))
    cluster.commit_everywhere(1, [2, 3])
    operation = asking(cluster, ADD_VOTER, 4)
    yield
    cluster.history.succeed(operation)


@STORIES.of(21)
def a_removal_from_the_initial_voters_is_acknowledged_before_anything_is_committed(
    cluster: FabricatedCluster,
) -> Iterator[None]:
    operation = asking(cluster, REMOVE_VOTER, 3)
    yield
    cluster.history.succeed(operation)


def aiming(cluster: FabricatedCluster, *target: int) -> Operation:
    """A request for a reassignment; without a target, to cancel it."""
    kind = REASSIGN if target else CANCEL_REASSIGNMENT
    return cluster.history.invoke(kind, client="admin", subject=" ".join(map(str, target)))


def aim(cluster: FabricatedCluster, epoch: int, *target: int) -> None:
    cluster.change_voters(1, epoch, voters_of(1, 2, 3), target=tuple(map(key_of, target)))


@STORIES.of(21)
def a_target_is_acknowledged_before_it_is_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    operation = aiming(cluster, 1, 2, 4)
    aim(cluster, epoch, 1, 2, 4)
    yield
    cluster.history.succeed(operation)


@STORIES.of(21)
def the_initial_voters_are_acknowledged_while_the_target_is_another(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    aim(cluster, epoch, 1, 2, 4)
    cluster.commit_everywhere(1, [2, 3])
    operation = aiming(cluster, 1, 2, 3)
    yield
    cluster.history.succeed(operation)


@STORIES.of(21)
def a_cancellation_is_acknowledged_before_it_is_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    aim(cluster, epoch, 1, 2, 4)
    cluster.commit_everywhere(1, [2, 3])
    operation = aiming(cluster)
    aim(cluster, epoch)
    yield
    cluster.history.succeed(operation)


@STORIES.of(21, kraft_version=0)
def an_upgrade_is_acknowledged_before_it_is_committed(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = start_epoch(cluster)
    upgrade = cluster.history.invoke(UPGRADE, client="admin")
    cluster.append(1, epoch, control=[KRaftVersion(1), VotersRecord(voters_of(1, 2, 3))])
    yield
    cluster.history.succeed(upgrade)


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()


def test_lawful_clients_are_silent() -> None:
    """Overlapping appends in either order, a lost one that is there and one that is not, a failed one, reads."""
    cluster = FabricatedCluster()
    cluster.history.is_complete = True
    epoch = written(cluster, b"first")
    late, early = appending(cluster, b"late"), cluster.history.invoke("append", client="c", values=[b"early", b"too"])
    lost, gone = (cluster.history.invoke("append", client=name, values=[name.encode()]) for name in ("lost", "gone"))
    for values in ((b"early", b"too"), (b"late",), (b"lost",)):
        cluster.append(1, epoch, *values)
    old_read = cluster.history.invoke("read-known", client="d", from_offset=1, is_linearizable=False)
    cluster.commit_everywhere(1, [2, 3])
    cluster.history.succeed(late, offsets=[4])
    cluster.history.lose(lost, "no answer")
    cluster.history.lose(gone, "no answer")
    cluster.history.succeed(early, offsets=[2, 3])
    cluster.history.succeed(old_read, offsets=[1], values=[b"first"], end_offset=2)
    cluster.history.fail(cluster.history.invoke("append", client="e", values=[b"refused"]), "refused")
    read = reading(cluster, 3)
    cluster.history.succeed(read, offsets=[3, 4, 5], values=[b"too", b"late", b"lost"], end_offset=6)
    cluster.history.fail(reading(cluster), "timed out")
    for node_id in (1, 2, 3):
        cluster.put_snapshot(node_id, OffsetAndEpoch(6, epoch))
        cluster.apply(node_id)
    cluster.restart(2)
    cluster.checker.finished()
    assert not cluster.violations, str(cluster.violations[0])


def test_lawful_voter_changes_are_silent() -> None:
    """Two are requested together and made one after the other.  One was lost and is made; one has an unknown outcome.
    One had already been made, as a client finds out that asks a second leader."""
    cluster = FabricatedCluster()
    epoch = start_epoch(cluster)
    growth, removal = asking(cluster, ADD_VOTER, 4), asking(cluster, REMOVE_VOTER, 4)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3, 4))
    cluster.follow(4, 1, epoch)
    cluster.commit_everywhere(1, [2, 3, 4])
    cluster.history.succeed(growth)
    cluster.change_voters(1, epoch, voters_of(1, 2, 3))
    cluster.commit_everywhere(1, [2, 3])
    cluster.history.succeed(removal)
    lost, gone = asking(cluster, REMOVE_VOTER, 3), asking(cluster, ADD_VOTER, 5)
    cluster.history.lose(lost, "no answer")
    cluster.change_voters(1, epoch, voters_of(1, 2))
    cluster.commit_everywhere(1, [2])
    cluster.history.lose(gone, "no answer")
    cluster.history.succeed(asking(cluster, REMOVE_VOTER, 3))
    assert not cluster.violations, str(cluster.violations[0])


def test_lawful_reassignments_are_silent() -> None:
    """The second target names the voters as they are.  One is cancelled; another cancellation finds nothing to do, as a
    client finds out that asks a second leader."""
    cluster = FabricatedCluster()
    epoch = start_epoch(cluster)
    cluster.history.succeed(aiming(cluster))
    for target in ((1, 2, 4), (1, 2, 3), (1, 5), ()):
        operation = aiming(cluster, *target)
        aim(cluster, epoch, *(() if target == (1, 2, 3) else target))
        cluster.commit_everywhere(1, [2, 3])
        cluster.history.succeed(operation)
    cluster.history.succeed(aiming(cluster))
    assert not cluster.violations, str(cluster.violations[0])


def test_an_upgrade_that_is_committed_may_be_acknowledged() -> None:
    cluster = FabricatedCluster(kraft_version=0)
    epoch = start_epoch(cluster)
    upgrade = cluster.history.invoke(UPGRADE, client="admin")
    cluster.append(1, epoch, control=[KRaftVersion(1), VotersRecord(voters_of(1, 2, 3))])
    cluster.commit_everywhere(1, [2, 3])
    cluster.history.succeed(upgrade)
    assert not cluster.violations, str(cluster.violations[0])
