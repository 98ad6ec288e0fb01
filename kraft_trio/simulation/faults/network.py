"""Random faults of the network: partitions of every kind, and links that are slow, lossy or worse."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from kraft_trio.simulation.faults.plan import MILLISECOND_US, SECOND_US, Timeline, fault
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import membership, network, process, runs, strangers
from kraft_trio.simulation.script.steps.network import Delay

_MISADVERTISING: Final = 0.2
"""The share of the runs in which nodes announce addresses where nobody listens."""


def _until_healed(timeline: Timeline, at_us: int, *steps: Step) -> None:
    for step in steps:
        timeline.add(at_us, step)
    timeline.add(at_us + timeline.span_us(20 * MILLISECOND_US, 20 * SECOND_US), network.heal())


def dead_addresses(timeline: Timeline, source: random.Random) -> None:
    """In some runs, some or all nodes announce an address where nobody listens, for a while or to the end."""
    if source.random() >= _MISADVERTISING:
        return
    for _ in range(source.randint(1, 2)):
        nodes = tuple(sorted(source.sample(timeline.node_ids, source.randint(1, len(timeline.node_ids)))))
        at_us = source.randrange(0, timeline.duration_us, MILLISECOND_US)
        timeline.add(at_us, membership.misadvertise(nodes))
        timeline.add(at_us, process.restart(nodes))
        if source.random() < 0.5:
            end_us = at_us + source.randrange(100 * MILLISECOND_US, 20 * SECOND_US, MILLISECOND_US)
            timeline.add(end_us, membership.advertise(nodes))
            timeline.add(end_us, process.restart(nodes))


def _is_silent(timeline: Timeline) -> bool:
    return timeline.random.random() < 0.5


@fault("network", min_nodes=2)
def isolate(timeline: Timeline, at_us: int) -> None:
    _until_healed(
        timeline, at_us, network.isolate(timeline.random.choice(timeline.node_ids), silent=_is_silent(timeline))
    )


@fault("network", min_nodes=2)
def halves(timeline: Timeline, at_us: int) -> None:
    _until_healed(timeline, at_us, network.cut(timeline.split(), silent=_is_silent(timeline)))


@fault("network", min_nodes=3)
def bridge(timeline: Timeline, at_us: int) -> None:
    node, *others = timeline.random.sample(timeline.node_ids, len(timeline.node_ids))
    size = timeline.random.randrange(1, len(others))
    groups = (tuple(others[:size]), tuple(others[size:]))
    _until_healed(timeline, at_us, network.bridge(node, between=groups, silent=_is_silent(timeline)))


@fault("network", min_nodes=4)
def ring(timeline: Timeline, at_us: int) -> None:
    nodes = timeline.random.sample(timeline.node_ids, len(timeline.node_ids))
    _until_healed(timeline, at_us, network.ring(tuple(nodes), silent=_is_silent(timeline)))


@fault("network", min_nodes=2)
def one_way(timeline: Timeline, at_us: int) -> None:
    _until_healed(timeline, at_us, network.one_way(timeline.link()))


@fault("network", min_nodes=2)
def one_way_around_a_node(timeline: Timeline, at_us: int) -> None:
    """All nodes hear one node, which hears none of them, or the other way round."""
    node = timeline.random.choice(timeline.node_ids)
    hears = timeline.random.random() < 0.5
    links = [(other, node) if hears else (node, other) for other in timeline.node_ids if other != node]
    _until_healed(timeline, at_us, *(network.one_way(link) for link in links))


@fault("network", min_nodes=2)
def requests_only(timeline: Timeline, at_us: int) -> None:
    _until_healed(timeline, at_us, network.requests_only(timeline.link()))


@fault("network", min_nodes=2)
def answers_of_the_leader_lost(timeline: Timeline, at_us: int) -> None:
    """Requests reach the node that leads at that time, and none of its answers arrives."""
    _until_healed(timeline, at_us, runs.strike_leader("mute"))


@fault("network", min_nodes=2)
def answers_only(timeline: Timeline, at_us: int) -> None:
    _until_healed(timeline, at_us, network.answers_only(timeline.link()))


@fault("network", min_nodes=2)
def clog(timeline: Timeline, at_us: int) -> None:
    link = timeline.link()
    timeline.add(at_us, network.clog(link))
    timeline.add(at_us + timeline.span_us(20 * MILLISECOND_US, 20 * SECOND_US), network.unclog(link))


@fault("network")
def slow_links(timeline: Timeline, at_us: int) -> None:
    """Latencies that differ by orders of magnitude between frames, on one link or on all."""
    worst_us = timeline.span_us(10 * MILLISECOND_US, 5 * SECOND_US)
    link = timeline.link_or_all()
    timeline.add(at_us, network.latency(Delay(200, worst_us, max(200, worst_us // 20)), on=link))
    back_us = at_us + timeline.span_us(200 * MILLISECOND_US, 20 * SECOND_US)
    timeline.add(back_us, network.latency(Delay(200, 2000), on=link))


def _share(timeline: Timeline, at_us: int, kind: Callable[..., Step], worst_ppm: int) -> None:
    link = timeline.link_or_all()
    timeline.add(at_us, kind(timeline.random.randrange(1000, worst_ppm, 1000), on=link))
    timeline.add(at_us + timeline.span_us(200 * MILLISECOND_US, 20 * SECOND_US), kind(0, on=link))


@fault("network")
def loss(timeline: Timeline, at_us: int) -> None:
    _share(timeline, at_us, network.loss, 300_000)


@fault("network")
def resets(timeline: Timeline, at_us: int) -> None:
    _share(timeline, at_us, network.resets, 100_000)


@fault("network")
def cut_frames(timeline: Timeline, at_us: int) -> None:
    _share(timeline, at_us, network.cut_frames, 100_000)


@fault("network")
def duplicates(timeline: Timeline, at_us: int) -> None:
    _share(timeline, at_us, network.duplicates, 200_000)


@fault("network")
def stranger(timeline: Timeline, at_us: int) -> None:
    """A peer of another cluster, in a later epoch."""
    timeline.add(at_us, strangers.intrude(timeline.random.choice(timeline.node_ids)))


@fault("network", min_nodes=2)
def liar(timeline: Timeline, at_us: int) -> None:
    """False advertisements of voters, one after the other."""
    for _ in range(timeline.random.randint(1, 6)):
        node, about = (timeline.random.choice(timeline.node_ids) for _ in range(2))
        place = timeline.random.choice((None, *timeline.node_ids))
        timeline.add(at_us, strangers.lie(node, about=about, at=place, other_disk=timeline.random.random() < 0.2))
        at_us += timeline.span_us(1 * MILLISECOND_US, 3 * SECOND_US)
