"""Asks the nodes of a quorum again and again, each in a task of its own, while somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from kraft_trio.client.claims import CLIENT_ID, Told, ask_node, named_by, others_named, situation_of
from kraft_trio.client.cluster_reader import ClusterReader
from kraft_trio.client.told_status import MAX_NODES
from kraft_trio.dashboard.history import History
from kraft_trio.dashboard.node_watch import NodeWatch
from kraft_trio.diagnosis.quorum_situation import Situation
from kraft_trio.protocol.kafka_cluster import KafkaCluster
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.network import Network

ANSWER_MS: Final = 2000
"""Time in which a node must answer."""
ASK_EVERY_S: Final = 1.0
"""Pause between an answer and the next question to the same node."""
CLUSTER_EVERY_S: Final = 5.0
"""Pause between two looks at the metadata of Kafka's controllers."""
FORGET_S: Final = 120.0
"""A node that no other names any more, and that has been silent for so long, is not asked any more."""


class QuorumWatch:
    """Owns a task for each node.  A node that hangs delays nothing but news of itself.

    `named` returns the endpoints to begin with; the nodes there name the others.  `fetch_timeout_ms` is the time after
    which a voter that has not fetched counts as offline.  `command_config` is the file that tells tools how to connect,
    for the commands that the page shows.
    """

    def __init__(
        self,
        network: Network,
        named: Callable[[], Sequence[Endpoint]],
        *,
        fetch_timeout_ms: int,
        wall_clock_ms: Callable[[], int],
        command_config: str | None = None,
    ) -> None:
        self._network = network
        self._named = named
        self._fetch_timeout_ms = fetch_timeout_ms
        self._command_config = command_config
        self.history = History(wall_clock_ms)
        self.wall_clock_ms = wall_clock_ms
        self._watches: dict[Endpoint, NodeWatch] = {}
        self._asking: dict[Endpoint, trio.CancelScope] = {}
        self._lookers = 0
        self._wanted = trio.Event()
        self._news = trio.Event()
        self._cluster: KafkaCluster | None = None

    async def run(self) -> None:
        """Ask until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_cluster)
            while True:
                await self._wanted.wait()
                self._follow(nursery)
                await trio.sleep(ASK_EVERY_S)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While it is open, the nodes are asked."""
        self._lookers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._lookers -= 1
            if not self._lookers:
                self._wanted = trio.Event()

    @property
    def lookers(self) -> int:
        """How many look at present."""
        return self._lookers

    @property
    def news(self) -> trio.Event:
        """Set once a node answers, or fails to.  Get it before looking, and nothing is missed."""
        return self._news

    @property
    def watches(self) -> tuple[NodeWatch, ...]:
        """The nodes that have been asked, in the order in which they were found."""
        return tuple(watch for watch in self._watches.values() if watch.newest is not None)

    def told(self) -> Mapping[Endpoint, Told]:
        """The newest answer of each node, or its failure to answer."""
        return {watch.endpoint: watch.newest for watch in self._watches.values() if watch.newest is not None}

    def situation(self) -> Situation:
        """What the newest answers say together."""
        found = situation_of(self.told(), self._fetch_timeout_ms)
        return attrs.evolve(
            found, command_config=self._command_config, now_ms=self.wall_clock_ms(), cluster=self._cluster
        )

    def _follow(self, nursery: trio.Nursery) -> None:
        """Begin to ask nodes that are new, and forget those that are gone."""
        named = list(dict.fromkeys(self._named()))
        told = {watch.endpoint: found for watch in self._watches.values() if (found := watch.told or watch.newest)}
        for endpoint in [*named, *others_named(told)]:
            if endpoint not in self._watches and len(self._watches) < MAX_NODES:
                self._watches[endpoint] = NodeWatch(endpoint)
                self._asking[endpoint] = scope = trio.CancelScope()
                nursery.start_soon(self._ask, self._watches[endpoint], scope)
        wanted = {*named, *named_by(told).values()}
        now_s = trio.current_time()
        for watch in tuple(self._watches.values()):
            is_silent = watch.silent_since_s is not None and now_s - watch.silent_since_s > FORGET_S
            if is_silent and watch.endpoint not in wanted:
                del self._watches[watch.endpoint]
                self._asking.pop(watch.endpoint).cancel()

    async def _read_cluster(self) -> None:
        reader = ClusterReader(self._network, CLIENT_ID)
        while True:
            await self._wanted.wait()
            looked = await reader.look(situation_of(self.told(), self._fetch_timeout_ms), ANSWER_MS)
            self._cluster = looked.cluster
            await trio.sleep(CLUSTER_EVERY_S if looked.report is not None else ASK_EVERY_S)

    async def _ask(self, watch: NodeWatch, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await self._wanted.wait()
                told = await ask_node(self._network, watch.endpoint, ANSWER_MS)
                watch.heard(told, trio.current_time())
                if watch.newest is not None:
                    self.history.heard(watch.newest)
                news, self._news = self._news, trio.Event()
                news.set()
                await trio.sleep(ASK_EVERY_S)
