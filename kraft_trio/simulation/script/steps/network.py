"""Steps of the network.

Partitions add up until `heal`.  A link is one direction between two nodes.  Clients reach every node all the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import attrs

from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.script.parts import (
    Groups,
    Link,
    Node,
    Nodes,
    OneWord,
    Probability,
    TwoGroups,
    duration_from_text,
    duration_text,
)
from kraft_trio.simulation.script.step import step


@attrs.frozen
class Delay:
    """A latency in microseconds: evenly between two bounds, or mostly near the lower one."""

    minimum_us: int
    maximum_us: int
    mean_us: int | None = None
    """None: all latencies between the bounds are equally likely.  Otherwise exponential above the minimum, with this
    mean."""

    def __attrs_post_init__(self) -> None:
        in_order = [self.minimum_us, *([] if self.mean_us is None else [self.mean_us]), self.maximum_us]
        if sorted(in_order) != in_order or self.minimum_us < 0:
            raise ValueError(f"{self}: expected 0 <= minimum <= mean <= maximum")

    def latency(self) -> Latency:
        """The distribution that links use."""
        if self.mean_us is not None:
            return Latency.long_tailed(self.minimum_us / 1e6, self.mean_us / 1e6, self.maximum_us / 1e6)
        if self.minimum_us == self.maximum_us:
            return Latency.constant(self.minimum_us / 1e6)
        return Latency.uniform(self.minimum_us / 1e6, self.maximum_us / 1e6)

    def __str__(self) -> str:
        if self.mean_us is None and self.minimum_us == self.maximum_us:
            return duration_text(self.minimum_us)
        mean = "" if self.mean_us is None else f"~{duration_text(self.mean_us)}"
        return f"{duration_text(self.minimum_us)}..{duration_text(self.maximum_us)}{mean}"


def delay_from_text(text: str) -> Delay | None:
    """Parse the result of `str` of a Delay; None for any other text."""
    bounds, has_mean, mean = text.partition("~")
    minimum, has_maximum, maximum = bounds.partition("..")
    minimum_us = duration_from_text(minimum)
    maximum_us = duration_from_text(maximum) if has_maximum else minimum_us
    mean_us = duration_from_text(mean) if has_mean else None
    if minimum_us is None or maximum_us is None or (has_mean and mean_us is None):
        return None
    try:
        return Delay(minimum_us, maximum_us, mean_us)
    except ValueError:
        return None


DelayValue = Annotated[
    Delay,
    OneWord(
        "T|MIN..MAX|MIN..MAX~MEAN",
        "a latency, as in 5ms, 1ms..20ms, or 1ms..2s~30ms for mostly short ones with a mean of 30ms",
        delay_from_text,
    ),
]


def _host(node: int) -> str:
    return f"node-{node}"


def _hosts(nodes: Iterable[int]) -> list[str]:
    return [_host(node) for node in nodes]


@step
async def cut(cluster: Cluster, groups: Groups, *, silent: bool = False) -> None:
    """Lets nodes reach only their own group; with `silent`, connections stall instead of breaking."""
    cluster.network.partition(*map(_hosts, groups), silent=silent)


@step
async def isolate(cluster: Cluster, node: Node, *, silent: bool = False) -> None:
    """Cuts one node off from all others."""
    others = [machine.host for machine in cluster.machines.values() if machine.id != node]
    cluster.network.isolate(_host(node), others, silent=silent)


@step
async def bridge(cluster: Cluster, node: Node, *, between: TwoGroups, silent: bool = False) -> None:
    """Cuts two groups off from each other; only this node reaches both."""
    left, right = map(_hosts, between)
    cluster.network.bridge(_host(node), left, right, silent=silent)


@bridge.check
def _is_in_neither(node: int, *, between: TwoGroups, silent: bool = False) -> None:
    if any(node in group for group in between):
        raise ValueError(f"node: {node} is in a group; expected one in neither")


@step
async def ring(cluster: Cluster, nodes: Nodes, *, silent: bool = False) -> None:
    """Lets each node reach only its two neighbours in this order."""
    cluster.network.ring(*_hosts(nodes), silent=silent)


@step
async def one_way(cluster: Cluster, link: Link, *, hard: bool = False) -> None:
    """Delivers only what A sends to B, and loses everything that B sends to A.

    Connections can still open and close over the link, except with `hard`.
    """
    source, target = _hosts(link)
    cluster.network.one_way(target, source, handshakes=not hard)


@step
async def requests_only(cluster: Cluster, link: Link) -> None:
    """Delivers A's requests to B, and loses B's answers."""
    cluster.network.requests_only(*_hosts(link))


@step
async def mute(cluster: Cluster, node: Node) -> None:
    """Loses every answer of a node to others' requests."""
    for machine in cluster.machines.values():
        if machine.id != node:
            cluster.network.requests_only(machine.host, _host(node))


@step
async def answers_only(cluster: Cluster, link: Link) -> None:
    """Loses A's requests to B; B's answers to earlier requests still arrive."""
    cluster.network.answers_only(*_hosts(link))


@step
async def clog(cluster: Cluster, link: Link) -> None:
    """Holds back everything that A sends to B until `unclog` or `heal`."""
    cluster.network.clog(*_hosts(link))


@step
async def unclog(cluster: Cluster, link: Link) -> None:
    """Delivers what `clog` has held back."""
    cluster.network.unclog(*_hosts(link))


@step
async def heal(cluster: Cluster) -> None:
    """Ends all partitions and unclogs all links; latencies and losses stay."""
    cluster.network.heal()


@step
async def latency(cluster: Cluster, delay: DelayValue, *, on: Link | None = None) -> None:
    """Sets the latency of one link, or of all others."""
    _set(cluster, on, latency=delay.latency())


@step
async def loss(cluster: Cluster, probability_ppm: Probability, *, on: Link | None = None) -> None:
    """Loses this share of the frames, which TCP sends again."""
    _set(cluster, on, loss=probability_ppm / 1e6)


@step
async def resets(cluster: Cluster, probability_ppm: Probability, *, on: Link | None = None) -> None:
    """Loses this share of the frames and resets their connections."""
    _set(cluster, on, reset=probability_ppm / 1e6)


@step
async def cut_frames(cluster: Cluster, probability_ppm: Probability, *, on: Link | None = None) -> None:
    """Cuts this share of the frames short and resets their connections."""
    _set(cluster, on, cut_frames=probability_ppm / 1e6)


@step
async def duplicates(cluster: Cluster, probability_ppm: Probability, *, on: Link | None = None) -> None:
    """Delivers this share of the requests again later, on another connection."""
    _set(cluster, on, duplicates=probability_ppm / 1e6)


def _set(cluster: Cluster, link: Link | None, **change: Any) -> None:
    """Change one link, or all links without a setting of their own."""
    if link is None:
        cluster.network.set_default_link(**change)
    else:
        cluster.network.set_link(*_hosts(link), **change)
