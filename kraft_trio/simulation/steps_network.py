"""Steps of the network: partitions of every kind, slow, lossy and clogged links.

Partitions add up until `heal`.  A link is one direction between two nodes; clients reach every node all the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from kraft_trio.simulation.step_parts import GROUPS, LINK, NODE, NODES
from kraft_trio.simulation.step_syntax import flag, part
from kraft_trio.simulation.steps import Step, register

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster


def _host(node: int) -> str:
    return f"node-{node}"


@register
@attrs.frozen
class Cut(Step):
    """Lets the nodes named reach only those of their own group; `silent`: connections stall instead of breaking."""

    verb: ClassVar[str] = "cut"
    groups: tuple[tuple[int, ...], ...] = part(GROUPS)
    silent: bool = flag("silent")

    async def take(self, cluster: Cluster) -> None:
        cluster.network.partition(*([_host(node) for node in group] for group in self.groups), silent=self.silent)


@register
@attrs.frozen
class Isolate(Step):
    """Cuts one node off from all others."""

    verb: ClassVar[str] = "isolate"
    node: int = part(NODE)
    silent: bool = flag("silent")

    async def take(self, cluster: Cluster) -> None:
        others = [_host(node) for node in cluster.machines if node != self.node]
        cluster.network.partition([_host(self.node)], others, silent=self.silent)


@register
@attrs.frozen
class Bridge(Step):
    """Cuts the groups from each other; one node still reaches, and is reached by, everyone."""

    verb: ClassVar[str] = "bridge"
    node: int = part(NODE)
    groups: tuple[tuple[int, ...], ...] = part(GROUPS, after="between")
    silent: bool = flag("silent")

    async def take(self, cluster: Cluster) -> None:
        cluster.network.bridge(
            _host(self.node), *([_host(node) for node in group] for group in self.groups), silent=self.silent
        )


@register
@attrs.frozen
class Ring(Step):
    """Lets each of the nodes reach only the one before it and the one behind it in this order."""

    verb: ClassVar[str] = "ring"
    nodes: tuple[int, ...] = part(NODES)
    silent: bool = flag("silent")

    async def take(self, cluster: Cluster) -> None:
        cluster.network.ring([_host(node) for node in self.nodes], silent=self.silent)


@register
@attrs.frozen
class OneWay(Step):
    """Lets only what A sends to B arrive; nothing that B sends reaches A."""

    verb: ClassVar[str] = "one-way"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.one_way(*map(_host, self.link))


@register
@attrs.frozen
class RequestsOnly(Step):
    """Lets A's requests reach B, and loses B's answers to them."""

    verb: ClassVar[str] = "requests-only"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.requests_only(*map(_host, self.link))


@register
@attrs.frozen
class AnswersOnly(Step):
    """Loses A's requests to B; B's answers to requests it has already would still arrive."""

    verb: ClassVar[str] = "answers-only"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.answers_only(*map(_host, self.link))


@register
@attrs.frozen
class Clog(Step):
    """Holds back everything that A sends to B, until `unclog` lets it arrive."""

    verb: ClassVar[str] = "clog"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.clog(*map(_host, self.link))


@register
@attrs.frozen
class Unclog(Step):
    """Lets arrive what `clog` has held back."""

    verb: ClassVar[str] = "unclog"
    link: tuple[int, int] = part(LINK)

    async def take(self, cluster: Cluster) -> None:
        cluster.network.unclog(*map(_host, self.link))


@register
@attrs.frozen
class Heal(Step):
    """Ends every partition and unclogs every link."""

    verb: ClassVar[str] = "heal"

    async def take(self, cluster: Cluster) -> None:
        cluster.network.heal()
