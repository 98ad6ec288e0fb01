"""Random voter changes: one at a time or two at once, among all other faults.

Nobody knows beforehand which changes are made, refused or lost, and so which nodes are voters when.  A step that no
quorum could survive does nothing when its time comes (see `survivability`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraft_trio.simulation.faults.disk import insert_blank_disk
from kraft_trio.simulation.faults.plan import MILLISECOND_US, SECOND_US, Timeline, fault
from kraft_trio.simulation.faults.process import strike_for_a_while
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import disk, membership, network, process, runs

_PATIENCE_US: Final = (2 * SECOND_US, 10 * SECOND_US, 30 * SECOND_US)


def _add(timeline: Timeline, node: int) -> Step:
    return membership.add_voter(node, within_us=timeline.random.choice(_PATIENCE_US), nowait=True)


def _remove(timeline: Timeline, node: int) -> Step:
    return membership.remove_voter(node, within_us=timeline.random.choice(_PATIENCE_US), nowait=True)


def _one(timeline: Timeline) -> Step:
    change = timeline.random.choice((_add, _remove))
    return change(timeline, timeline.random.choice(timeline.node_ids))


def _remove_leader(timeline: Timeline) -> Step:
    return membership.remove_leader(within_us=timeline.random.choice(_PATIENCE_US), nowait=True)


def _likely_change(timeline: Timeline) -> list[Step]:
    """Removes the leader, or both adds and removes one node; the node decides which of the two can succeed."""
    if timeline.random.random() < 0.3:
        return [_remove_leader(timeline)]
    node = timeline.random.choice(timeline.node_ids)
    return [_add(timeline, node), _remove(timeline, node)]


def _add_all(timeline: Timeline, at_us: int, steps: Iterable[Step]) -> None:
    for step in steps:
        timeline.add(at_us, step)


def _one_after_the_other(timeline: Timeline, at_us: int, steps: Iterable[Step]) -> None:
    for step in steps:
        timeline.add(at_us, step)
        at_us += timeline.span_us(1 * MILLISECOND_US, 5 * SECOND_US)


@fault("membership", min_nodes=2)
def add_voter(timeline: Timeline, at_us: int) -> None:
    timeline.add(at_us, _add(timeline, timeline.random.choice(timeline.node_ids)))


@fault("membership", min_nodes=2)
def remove_voter(timeline: Timeline, at_us: int) -> None:
    timeline.add(at_us, _remove(timeline, timeline.random.choice(timeline.node_ids)))


@fault("membership", min_nodes=2)
def two_changes(timeline: Timeline, at_us: int) -> None:
    """Two changes at once, perhaps requested from two nodes that each believe they lead."""
    timeline.add(at_us, _one(timeline))
    timeline.add(at_us, _one(timeline))


@fault("membership", min_nodes=2)
def grow(timeline: Timeline, at_us: int) -> None:
    """Adds every node."""
    nodes = timeline.random.sample(timeline.node_ids, len(timeline.node_ids))
    _one_after_the_other(timeline, at_us, [_add(timeline, node) for node in nodes])


@fault("membership", min_nodes=2)
def dwindle(timeline: Timeline, at_us: int) -> None:
    """Removes all voters but one, in half of the cases also the leader."""
    nodes = timeline.random.sample(timeline.node_ids, len(timeline.node_ids) - 1)
    _one_after_the_other(timeline, at_us, [_remove(timeline, node) for node in nodes])


@fault("membership", min_nodes=2)
def remove_leader(timeline: Timeline, at_us: int) -> None:
    timeline.add(at_us, _remove_leader(timeline))


@fault("membership", min_nodes=2)
def change_and_strike(timeline: Timeline, at_us: int) -> None:
    """The leader is lost when it has appended a change, perhaps before any other node has the record."""
    _add_all(timeline, at_us, _likely_change(timeline))
    strike_for_a_while(timeline, at_us, mid_change=True)


@fault("membership", min_nodes=2)
def change_of_a_lost_leader(timeline: Timeline, at_us: int) -> None:
    """A leader that does not know yet that it is cut off appends a change to its own log only."""
    timeline.add(at_us, runs.strike_leader(timeline.random.choice(("isolate", "stall"))))
    _add_all(timeline, at_us, _likely_change(timeline))
    timeline.add(at_us + timeline.span_us(500 * MILLISECOND_US, 20 * SECOND_US), network.heal())


@fault("membership", min_nodes=3)
def change_of_a_new_leader(timeline: Timeline, at_us: int) -> None:
    """A leader that is cut off appends a change.  The next leader is asked for another one before it has committed
    anything.

    These are the conditions of the single-server bug of 2015 (scenario S1).  The disks are slow to leave time for it.
    """
    timeline.add(at_us, runs.strike_leader(timeline.random.choice(("isolate", "stall"))))
    _add_all(timeline, at_us, _likely_change(timeline))
    sync_us = timeline.span_us(20 * MILLISECOND_US, 1 * SECOND_US)
    _add_all(timeline, at_us, [disk.slow_disk(node, sync_us) for node in timeline.node_ids])
    for _ in range(3):
        at_us += timeline.span_us(200 * MILLISECOND_US, 3 * SECOND_US)
        _add_all(timeline, at_us, _likely_change(timeline))
    at_us += timeline.span_us(100 * MILLISECOND_US, 5 * SECOND_US)
    _add_all(timeline, at_us, [disk.slow_disk(node, MILLISECOND_US) for node in timeline.node_ids])
    timeline.add(at_us, network.heal())


@fault("membership", min_nodes=2)
def replace_disk(timeline: Timeline, at_us: int) -> None:
    """A disk is lost.  The administrator removes the old replica and adds the new one."""
    if timeline.header.kraft_version == 0:
        return
    span_us = timeline.span_us(10 * MILLISECOND_US, 5 * SECOND_US)
    if (node := insert_blank_disk(timeline, at_us, span_us)) is not None:
        _one_after_the_other(timeline, at_us + span_us, (_remove(timeline, node), _add(timeline, node)))


def _reassign(timeline: Timeline) -> Step:
    nodes = timeline.random.sample(timeline.node_ids, timeline.random.randint(1, len(timeline.node_ids)))
    return membership.reassign(tuple(sorted(nodes)), within_us=timeline.random.choice(_PATIENCE_US), nowait=True)


@fault("membership", min_nodes=2)
def reassign(timeline: Timeline, at_us: int) -> None:
    """Reassigns the voters to random nodes, often with other targets or cancellations after it."""
    if timeline.header.kraft_version == 0:
        return
    steps: list[Step] = [_reassign(timeline)]
    if timeline.random.random() < 0.7:
        other, patience_us = _reassign(timeline), timeline.random.choice(_PATIENCE_US)
        others = (other, membership.cancel_reassignment(within_us=patience_us, nowait=True))
        steps += [timeline.random.choice(others) for _ in range(timeline.random.randint(1, 3))]
    _one_after_the_other(timeline, at_us, steps)


@fault("membership", min_nodes=2)
def reassign_to_a_failing_node(timeline: Timeline, at_us: int) -> None:
    """A member of the target dies, loses its disk or becomes slow on the way."""
    if timeline.header.kraft_version == 0:
        return
    step = _reassign(timeline)
    timeline.add(at_us, step)
    at_us += timeline.span_us(1 * MILLISECOND_US, 1 * SECOND_US)
    span_us = timeline.span_us(10 * MILLISECOND_US, 10 * SECOND_US)
    if timeline.random.random() < 0.3:
        slow = timeline.random.choice(step.node_ids)
        timeline.add(at_us, disk.slow_disk(slow, timeline.span_us(20 * MILLISECOND_US, 1 * SECOND_US)))
        timeline.add(at_us + span_us, disk.slow_disk(slow, MILLISECOND_US))
    elif (node := timeline.claim(at_us, span_us, step.node_ids)) is not None:
        fails = timeline.random.choice((process.kill((node,)), disk.blank_disk(node)))
        timeline.add(at_us, fails)
        timeline.add(at_us + span_us, process.start((node,)))


@fault("membership", min_nodes=2)
def reassign_and_strike(timeline: Timeline, at_us: int) -> None:
    """Leaders are lost on the way, each when it has appended a step."""
    if timeline.header.kraft_version == 0:
        return
    timeline.add(at_us, _reassign(timeline))
    for _ in range(timeline.random.randint(1, 3)):
        strike_for_a_while(timeline, at_us, mid_change=True)
        at_us += timeline.span_us(100 * MILLISECOND_US, 5 * SECOND_US)


@fault("membership", min_nodes=2)
def move(timeline: Timeline, at_us: int) -> None:
    """A node comes back at another address.  It is not the first node, so that all nodes still find the quorum."""
    if timeline.header.kraft_version == 0:
        return
    down_us = timeline.span_us(1 * MILLISECOND_US, 5 * SECOND_US)
    if (node := timeline.claim(at_us, down_us, timeline.node_ids[1:])) is not None:
        timeline.add(at_us, membership.move(node))
        timeline.add(at_us + down_us, process.restart((node,)))


@fault("membership", min_nodes=2)
def move_all(timeline: Timeline, at_us: int) -> None:
    """All nodes end at once, and come back at other addresses, one after the other."""
    if timeline.header.kraft_version == 0:
        return
    everyone = timeline.node_ids
    end = timeline.random.choice((process.kill(everyone), process.crash(everyone, "reordered")))
    _add_all(timeline, at_us, [end, *(membership.move(node) for node in everyone)])
    for node in timeline.random.sample(everyone, len(everyone)):
        at_us += timeline.span_us(1 * MILLISECOND_US, 1 * SECOND_US)
        timeline.add(at_us, process.start((node,)))
        timeline.occupy(node, at_us)


@fault("membership")
def upgrade(timeline: Timeline, at_us: int) -> None:
    """Upgrades static voters to voters in the log."""
    if timeline.header.kraft_version == 0:
        timeline.add(
            at_us, membership.upgrade_kraft_version(within_us=timeline.random.choice(_PATIENCE_US), nowait=True)
        )
