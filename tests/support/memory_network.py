"""A network of in-memory streams for whole nodes in one process: the same interface as TCP, with cuts."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio
from trio.testing import memory_stream_pair

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint


class MemoryListener:
    def __init__(self, network: MemoryNetwork, endpoint: Endpoint) -> None:
        self._network = network
        self._endpoint = endpoint
        self.incoming, self._accepted = trio.open_memory_channel[trio.abc.Stream](64)

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    async def accept(self) -> trio.abc.Stream:
        try:
            return await self._accepted.receive()
        except trio.EndOfChannel:
            raise trio.ClosedResourceError from None

    async def aclose(self) -> None:
        self._network.listeners.pop(self._endpoint, None)
        self.incoming.close()
        self._accepted.close()


@attrs.define
class MemoryNetwork:
    """Endpoints by name; `cut` endpoints refuse new connections and break the ones they have."""

    listeners: dict[Endpoint, MemoryListener] = attrs.field(factory=dict)
    streams: list[tuple[Endpoint, Endpoint, trio.StapledStream, trio.StapledStream]] = attrs.field(factory=list)
    is_cut: Callable[[Endpoint, Endpoint], bool] = lambda _source, _target: False

    def seen_from(self, source: Endpoint) -> NodeNetwork:
        return NodeNetwork(self, source)

    async def break_cut_streams(self) -> None:
        """Close both ends of every connection between endpoints that are cut from each other now."""
        for source, target, near, far in list(self.streams):
            if self.is_cut(source, target):
                await trio.aclose_forcefully(near)
                await trio.aclose_forcefully(far)
                self.streams.remove((source, target, near, far))


@attrs.frozen
class NodeNetwork:
    """The network as one node sees it."""

    network: MemoryNetwork
    source: Endpoint

    async def connect(self, endpoint: Endpoint) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        listener = self.network.listeners.get(endpoint)
        if listener is None or self.network.is_cut(self.source, endpoint):
            raise NetworkError(f"{endpoint}: refused")
        near, far = memory_stream_pair()
        self.network.streams.append((self.source, endpoint, near, far))
        await listener.incoming.send(far)
        return near

    async def listen(self, endpoint: Endpoint) -> MemoryListener:
        if endpoint in self.network.listeners:
            raise OSError(98, f"Address already in use: {endpoint}")
        listener = MemoryListener(self.network, endpoint)
        self.network.listeners[endpoint] = listener
        return listener
