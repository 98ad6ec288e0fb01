"""Random faults while a snapshot is taken, fetched or installed, and while a log is trimmed.

Nodes in such runs take snapshots often and keep little of the log, so that a node that was away must fetch one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from kraft_trio.simulation.faults.disk import any_loss, spoil_disk
from kraft_trio.simulation.faults.plan import MILLISECOND_US, SECOND_US, Timeline, fault
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import clients, disk, network, process, runs
from kraft_trio.simulation.script.steps.runs import BLOWS

PROFILE: Final = "snapshots"

_MOST_CALLS: Final = {"snapshot": 12, "trim": 20}
"""About how many storage calls each of these takes."""


def snapshot_settings(source: random.Random, operations_per_s: int) -> dict[str, str]:
    """Settings for how often nodes take snapshots, how much log they keep, and how large the pieces of a fetch are.

    A higher load does not mean more snapshots, because each one takes real time.
    """
    new_bytes = operations_per_s * source.choice((300, 1000, 1000, 4000))
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": str(new_bytes),
        "metadata.log.segment.bytes": str(source.choice((1024, 1024, 2048))),
        "metadata.max.retention.bytes": str(source.choice((0, 0, 3000, 12_000))),
        "controller.quorum.fetch.snapshot.max.bytes": str(source.choice((150, 500, 500, 3000))),
    }
    if source.random() < 0.2:
        settings["metadata.log.max.snapshot.interval.ms"] = str(source.choice((300, 3000)))
    if source.random() < 0.2:
        settings["metadata.max.retention.ms"] = str(source.choice((100, 10_000)))
    return settings


def _one_of(timeline: Timeline, *kinds: str) -> str:
    return timeline.random.choice(kinds)


def _ends_at_next_call(timeline: Timeline, at_us: int, failing: Callable[[int], Step]) -> None:
    """Ends with a `restart`, which also runs if the process has made no such call."""
    span_us = timeline.span_us(100 * MILLISECOND_US, 20 * SECOND_US)
    if (node := timeline.claim(at_us, span_us)) is not None:
        timeline.add(at_us, failing(node))
        if timeline.random.random() < 0.5:
            timeline.add(at_us, clients.take_snapshot((node,), nowait=True))
        timeline.add(at_us + span_us, process.restart((node,)))


@fault(PROFILE)
def take_snapshots(timeline: Timeline, at_us: int) -> None:
    """Snapshots on demand, perhaps of all nodes at once."""
    everyone = timeline.random.random() < 0.3
    nodes = timeline.node_ids if everyone else (timeline.random.choice(timeline.node_ids),)
    timeline.add(at_us, clients.take_snapshot(nodes, nowait=True))


@fault(PROFILE)
def crash_in_snapshot(timeline: Timeline, at_us: int) -> None:
    """Power is lost during this node's next snapshot, fetched or its own, or during a trim."""
    of, lose = _one_of(timeline, "snapshot", "snapshot", "trim"), any_loss(timeline)
    calls = timeline.random.randint(1, _MOST_CALLS[of])
    _ends_at_next_call(timeline, at_us, lambda node: disk.crash_in(node, calls, lose, of=of))


@fault(PROFILE)
def snapshot_fails(timeline: Timeline, at_us: int) -> None:
    failing = disk.fail_sync if timeline.random.random() < 0.5 else disk.fail_write
    _ends_at_next_call(timeline, at_us, lambda node: failing(node, of="snapshot"))


@fault(PROFILE)
def disk_fills_with_a_snapshot(timeline: Timeline, at_us: int) -> None:
    """The disk has room for the log for a while, and later for everything."""
    span_us = timeline.span_us(1 * SECOND_US, 20 * SECOND_US)
    if (node := timeline.claim(at_us, span_us)) is not None:
        timeline.add(at_us, disk.full_disk(node, timeline.random.randrange(200, 4000)))
        timeline.add(at_us, clients.take_snapshot((node,), nowait=True))
        timeline.add(at_us + span_us, disk.free_disk(node))
        timeline.add(at_us + span_us, process.restart((node,)))


@fault(PROFILE)
def rot_in_snapshot(timeline: Timeline, at_us: int) -> None:
    """The damage is found when the snapshot is next read: at the node's next start, or by a replica that fetches it."""
    span_us = timeline.span_us(1 * SECOND_US, 20 * SECOND_US)
    if (node := spoil_disk(timeline, at_us, span_us)) is not None:
        timeline.add(at_us, disk.rot(node, "snapshot"))
        timeline.add(at_us + timeline.random.randrange(span_us), process.restart((node,)))
        if timeline.header.kraft_version == 1 and timeline.random.random() < 0.7:
            timeline.add(at_us + span_us, disk.blank_disk(node))
            timeline.add(at_us + span_us, process.start((node,)))


@fault(PROFILE, min_nodes=2)
def lag(timeline: Timeline, at_us: int) -> None:
    """A node is away until the logs of the others start after the end of its own."""
    _away(timeline, at_us)


@fault(PROFILE, min_nodes=2)
def fetcher_struck(timeline: Timeline, at_us: int) -> None:
    """A node that was away is lost again during its download, perhaps more than once."""
    back_us = _away(timeline, at_us)
    for _ in range(timeline.random.randint(1, 3)):
        blow = timeline.random.choice(tuple(BLOWS))
        timeline.add(back_us, runs.strike_fetcher(blow))
        back_us += timeline.span_us(10 * MILLISECOND_US, 5 * SECOND_US)
        timeline.add(back_us, _end(timeline, blow))


@fault(PROFILE, min_nodes=2)
def leader_lost_in_a_download(timeline: Timeline, at_us: int) -> None:
    """The leader is lost during a download, which continues or begins again with the next leader."""
    back_us = _away(timeline, at_us)
    blow = timeline.random.choice(tuple(BLOWS))
    timeline.add(back_us, runs.strike_leader(blow, mid_download=True))
    timeline.add(back_us + timeline.span_us(50 * MILLISECOND_US, 15 * SECOND_US), _end(timeline, blow))


@fault(PROFILE, min_nodes=2)
def download_over_bad_links(timeline: Timeline, at_us: int) -> None:
    """Connections are lost every few pieces."""
    back_us = _away(timeline, at_us)
    kind = network.cut_frames if timeline.random.random() < 0.5 else network.resets
    timeline.add(back_us, kind(timeline.random.randrange(20_000, 300_000, 1000)))
    timeline.add(back_us + timeline.span_us(1 * SECOND_US, 10 * SECOND_US), kind(0))


def _away(timeline: Timeline, at_us: int) -> int:
    """Take a node out for some time; returns when it comes back, in microseconds."""
    span_us = timeline.span_us(3 * SECOND_US, 30 * SECOND_US)
    node = timeline.claim(at_us, span_us)
    if node is None:
        return at_us
    if timeline.random.random() < 0.3:
        timeline.add(at_us, network.isolate(node, silent=timeline.random.random() < 0.5))
        timeline.add(at_us + span_us, network.heal())
    else:
        is_killed = timeline.random.random() < 0.5
        timeline.add(at_us, process.kill((node,)) if is_killed else process.crash((node,), any_loss(timeline)))
        timeline.add(at_us + span_us, process.start((node,)))
    return at_us + span_us


def _end(timeline: Timeline, blow: str) -> Step:
    everyone = timeline.node_ids
    if blow in ("isolate", "stall", "mute"):
        return network.heal()
    return process.resume(everyone) if blow == "pause" else process.start(everyone)
