"""Random faults of machines' power and of disks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Final

from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.faults.plan import MILLISECOND_US, SECOND_US, Timeline, fault
from kraft_trio.simulation.faults.process import down, everyone_down
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import disk, process, runs

_RESTORING: Final = 0.3
"""The share of the runs in which old copies of disks come back."""

_MOST_RETURNS: Final = 6

_BLANKING: Final = 0.15
"""The share of the runs that lose a majority of the disks."""

_LOSSES: Final[tuple[Loss, ...]] = ("all", "some", "reordered")


def any_loss(timeline: Timeline) -> Loss:
    """How much unsynced data a power failure loses."""
    return timeline.random.choice(_LOSSES)


@fault("disk")
def crash(timeline: Timeline, at_us: int) -> None:
    lose = any_loss(timeline)
    down(timeline, at_us, lambda node: process.crash((node,), lose))


@fault("disk")
def crash_all(timeline: Timeline, at_us: int) -> None:
    lose = any_loss(timeline)
    everyone_down(timeline, at_us, lambda nodes: process.crash(nodes, lose))


@fault("disk")
def slow_disk(timeline: Timeline, at_us: int) -> None:
    node = timeline.random.choice(timeline.node_ids)
    timeline.add(at_us, disk.slow_disk(node, timeline.span_us(5 * MILLISECOND_US, 5 * SECOND_US)))
    timeline.add(at_us + timeline.span_us(100 * MILLISECOND_US, 20 * SECOND_US), disk.slow_disk(node, MILLISECOND_US))


@fault("disk")
def fail_sync(timeline: Timeline, at_us: int) -> None:
    _fail(timeline, at_us, disk.fail_sync)


@fault("disk")
def fail_write(timeline: Timeline, at_us: int) -> None:
    _fail(timeline, at_us, disk.fail_write)


def _fail(timeline: Timeline, at_us: int, failing: Callable[[int], Step]) -> None:
    """The next such call fails and the node ends.  A `restart` follows, also if no such call was made."""
    span_us = timeline.span_us(100 * MILLISECOND_US, 15 * SECOND_US)
    if (node := timeline.claim(at_us, span_us)) is not None:
        timeline.add(at_us, failing(node))
        timeline.add(at_us + span_us, process.restart((node,)))


@fault("disk")
def full_disk(timeline: Timeline, at_us: int) -> None:
    span_us = timeline.span_us(100 * MILLISECOND_US, 15 * SECOND_US)
    if (node := timeline.claim(at_us, span_us)) is not None:
        timeline.add(at_us, disk.full_disk(node, round(math.exp(timeline.random.uniform(0.0, math.log(20_000))))))
        timeline.add(at_us + span_us, disk.free_disk(node))
        timeline.add(at_us + span_us, process.restart((node,)))


@fault("disk")
def crash_in(timeline: Timeline, at_us: int) -> None:
    """Power is lost at one of the next hundred calls of the storage."""
    span_us = timeline.span_us(100 * MILLISECOND_US, 15 * SECOND_US)
    if (node := timeline.claim(at_us, span_us)) is not None:
        timeline.add(at_us, disk.crash_in(node, timeline.random.randint(1, 100), any_loss(timeline)))
        timeline.add(at_us + span_us, process.restart((node,)))


@fault("disk")
def blank_disk(timeline: Timeline, at_us: int) -> None:
    """The machine comes back as another replica, an observer; its old directory id is dead."""
    if timeline.header.kraft_version == 0:
        return
    span_us = timeline.span_us(10 * MILLISECOND_US, 15 * SECOND_US)
    insert_blank_disk(timeline, at_us, span_us)


@fault("disk")
def rot(timeline: Timeline, at_us: int) -> None:
    """The node finds the damage at its next start at the latest.  Its disk is then replaced, if its id permits that."""
    span_us = timeline.span_us(1 * SECOND_US, 20 * SECOND_US)
    if (node := spoil_disk(timeline, at_us, span_us)) is not None:
        timeline.add(at_us, disk.rot(node, timeline.random.choice(("log", "log", "quorum-state"))))
        restart_us = at_us + timeline.random.randrange(span_us)
        timeline.add(restart_us, process.restart((node,)))
        if timeline.header.kraft_version == 1 and timeline.random.random() < 0.7:
            timeline.add(at_us + span_us, disk.blank_disk(node))
            timeline.add(at_us + span_us, process.start((node,)))


def old_copies(timeline: Timeline, source: random.Random) -> None:
    """In some runs, now and then a machine gets back a copy of its disk from some time before, as from a backup.

    The steps themselves see to it that nothing acknowledged is lost, which depends on the moment.
    """
    if timeline.header.kraft_version == 0 or timeline.changes_voters or source.random() >= _RESTORING:
        return
    for _ in range(source.randint(1, _MOST_RETURNS)):
        node = source.choice(timeline.node_ids)
        kept_us = source.randrange(timeline.duration_us // MILLISECOND_US) * MILLISECOND_US
        back_us = kept_us + source.randrange(100 * MILLISECOND_US, 10 * SECOND_US, MILLISECOND_US)
        timeline.add(kept_us, disk.keep_disk(node))
        timeline.add(back_us, disk.stale_disk(node, if_spared=True))
        timeline.add(
            back_us + source.randrange(10 * MILLISECOND_US, 5 * SECOND_US, MILLISECOND_US), process.start((node,))
        )


def blank_majority(timeline: Timeline, source: random.Random) -> None:
    """In some runs, most voters get blank disks late in the run.  Other faults continue meanwhile."""
    if timeline.header.kraft_version == 0 or timeline.changes_voters or source.random() >= _BLANKING:
        return
    at_us = timeline.duration_us - 1 - source.randrange(timeline.duration_us // 3)
    timeline.add(at_us, runs.blank_majority())
    timeline.add(
        at_us + source.randrange(10 * MILLISECOND_US, 5 * SECOND_US, MILLISECOND_US), process.start(timeline.node_ids)
    )


def insert_blank_disk(timeline: Timeline, at_us: int, span_us: int) -> int | None:
    """A machine comes back with a blank disk; its node, or None if no disk can be spared."""
    node = spoil_disk(timeline, at_us, span_us)
    if node is not None:
        timeline.add(at_us, disk.blank_disk(node))
        timeline.add(at_us + span_us, process.start((node,)))
    return node


def spoil_disk(timeline: Timeline, at_us: int, span_us: int) -> int | None:
    """Claim a node whose disk may be spoiled; None if no disk can be spared."""
    node = timeline.claim(at_us, span_us, timeline.spoilable())
    if node is not None:
        timeline.spoil(node)
    return node


def spoiled_by(step: Step) -> tuple[int, ...]:
    """The nodes whose disks lose by this step what the nodes promised or acknowledged."""
    return step.node_ids if step.kind in (disk.blank_disk, disk.rot) else ()
