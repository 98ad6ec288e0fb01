"""Steps of the network.

Partitions add up until `heal`.  A link is one direction between two nodes.  Clients reach every node all the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.script.parts import (
    GROUPS,
    LINK,
    NODE,
    NODES,
    PROBABILITY,
    TWO_GROUPS,
    Part,
    duration_from_text,
    duration_text,
)
from kraft_trio.simulation.script.steps import Step, flag, part, register
from kraft_trio.simulation.script.words import Words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraft_trio.simulation.cluster import Cluster


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


class DelayPart(Part[Delay]):
    """A latency."""

    name = "T|MIN..MAX|MIN..MAX~MEAN"
    expected = "a latency, as in 5ms, 1ms..20ms, or 1ms..2s~30ms for mostly short ones with a mean of 30ms"

    def begins(self, words: Words) -> bool:
        return delay_from_text(words.peek() or "") is not None

    def read(self, words: Words) -> Delay:
        delay = delay_from_text(words.peek() or "")
        if delay is None:
            raise self.error(words)
        words.take(self.expected)
        return delay

    def write(self, value: Delay) -> list[str]:
        return [str(value)]

    def check(self, value: Delay) -> bool:
        return isinstance(value, Delay)


DELAY = DelayPart()


def _host(node: int) -> str:
    return f"node-{node}"


def _hosts(nodes: Iterable[int]) -> list[str]:
    return [_host(node) for node in nodes]


@register
@attrs.frozen
class Cut(Step):
    """Lets nodes reach only their own group; with `silent`, connections stall instead of breaking."""

    verb: ClassVar[str] = "cut"
    groups: tuple[tuple[int, ...], ...] = part(GROUPS)
    silent: bool = flag("silent")

    async def take(self, cluster: Cluster) -> None:
        cluster.network.partition(*map(_hosts, self.groups), silent=self.silent)


@register
@attrs.frozen
class Isolate(Step):
    """Cuts one node off from all others."""

    verb: ClassVar[str] = "isolate"
    node: int = part(NODE)
    silent: bool = flag("silent")

    async def take(self, cluster: Cluster) -> None:
        others = [machine.host for machine in cluster.machines.values() if machine.id != self.node]
        cluster.network.isolate(_host(self.node), others, silent=self.silent)


@register
@attrs.frozen
class Bridge(Step):
    """Cuts two groups off from each other; only this node reaches both."""

    verb: ClassVar[str] = "bridge"
    node: int = part(NODE)
    groups: tuple[tuple[int, ...], ...] = part(TWO_GROUPS, after="between")
    silent: bool = flag("silent")

    async def take(self, cluster: Cluster) -> None:
        left, right = map(_hosts, self.groups)
        cluster.network.bridge(_host(self.node), left, right, silent=self.silent)

    def __attrs_post_init__(self) -> None:
        if any(self.node in group for group in self.groups):
            raise ValueError(f"node: {self.node} is in a group; expected one in neither")


@register
@attrs.frozen
class Ring(Step):
    """Lets each node reach only its two neighbours in this order."""

    verb: ClassVar[str] = "ring"
    nodes: tuple[int, ...] = part(NODES)
    silent: bool = flag("silent")

    async def take(self, cluster: Cluster) -> None:
        cluster.network.ring(*_hosts(self.nodes), silent=self.silent)


@register
@attrs.frozen
class OneWay(Step):
    """Delivers only what A sends to B, and loses everything that B sends to A.

    Connections can still open and close over the link, except with `hard`.
    """

    verb: ClassVar[str] = "one-way"
    link: tuple[int, int] = part(LINK)
    hard: bool = flag("hard")

    async def take(self, cluster: Cluster) -> None:
        source, target = _hosts(self.link)
        cluster.network.one_way(target, source, handshakes=not self.hard)


@register
@attrs.frozen
class RequestsOnly(Step):
    """Delivers A's requests to B, and loses B's answers."""

    verb: ClassVar[str] = "requests-only"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.requests_only(*_hosts(self.link))


@register
@attrs.frozen
class Mute(Step):
    """Loses every answer of a node to others' requests."""

    verb: ClassVar[str] = "mute"
    node: int = part(NODE)

    async def take(self, cluster: Cluster) -> None:
        for machine in cluster.machines.values():
            if machine.id != self.node:
                cluster.network.requests_only(machine.host, _host(self.node))


@register
@attrs.frozen
class AnswersOnly(Step):
    """Loses A's requests to B; B's answers to earlier requests still arrive."""

    verb: ClassVar[str] = "answers-only"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.answers_only(*_hosts(self.link))


@register
@attrs.frozen
class Clog(Step):
    """Holds back everything that A sends to B until `unclog` or `heal`."""

    verb: ClassVar[str] = "clog"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.clog(*_hosts(self.link))


@register
@attrs.frozen
class Unclog(Step):
    """Delivers what `clog` has held back."""

    verb: ClassVar[str] = "unclog"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.unclog(*_hosts(self.link))


@register
@attrs.frozen
class Heal(Step):
    """Ends all partitions and unclogs all links; latencies and losses stay."""

    verb: ClassVar[str] = "heal"

    async def take(self, cluster: Cluster) -> None:
        cluster.network.heal()


@register
@attrs.frozen
class SetLatency(Step):
    """Sets the latency of one link, or of all others."""

    verb: ClassVar[str] = "latency"
    delay: Delay = part(DELAY)
    link: tuple[int, int] | None = part(LINK, after="on", default=None)

    async def take(self, cluster: Cluster) -> None:
        if self.link is None:
            cluster.network.set_default_link(latency=self.delay.latency())
        else:
            cluster.network.set_link(*_hosts(self.link), latency=self.delay.latency())


@attrs.frozen
class _FrameFault(Step):
    """A fault of a share of the frames, on one link or on all links without a share of their own."""

    probability_ppm: int = part(PROBABILITY)
    link: tuple[int, int] | None = part(LINK, after="on", default=None)
    _setting: ClassVar[str]

    async def take(self, cluster: Cluster) -> None:
        change = {self._setting: self.probability_ppm / 1e6}
        if self.link is None:
            cluster.network.set_default_link(**change)  # type: ignore[arg-type]
        else:
            cluster.network.set_link(*_hosts(self.link), **change)  # type: ignore[arg-type]


@register
@attrs.frozen
class Loss(_FrameFault):
    """Loses this share of the frames, which TCP sends again."""

    verb: ClassVar[str] = "loss"
    _setting: ClassVar[str] = "loss"


@register
@attrs.frozen
class Resets(_FrameFault):
    """Loses this share of the frames and resets their connections."""

    verb: ClassVar[str] = "resets"
    _setting: ClassVar[str] = "reset"


@register
@attrs.frozen
class CutFrames(_FrameFault):
    """Cuts this share of the frames short and resets their connections."""

    verb: ClassVar[str] = "cut-frames"
    _setting: ClassVar[str] = "cut_frames"


@register
@attrs.frozen
class Duplicates(_FrameFault):
    """Delivers this share of the requests again later, on another connection."""

    verb: ClassVar[str] = "duplicates"
    _setting: ClassVar[str] = "duplicates"
