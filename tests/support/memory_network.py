"""A network in memory for whole nodes in one process: TCP's interface, with latency, cuts and lost answers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import attrs
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import Api


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


@attrs.define(eq=False)
class Connection:
    """Two pipes, one each way.  One request is in flight at a time, so an answer belongs to the last request sent."""

    source: Endpoint
    target: Endpoint
    last_request: int = -1
    """The API key of the last request that was sent."""
    is_broken: bool = False
    changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)


@attrs.define(eq=False)
class Pipe:
    """Bytes on their way in one direction, each piece with the time it arrives at; None is the end of the stream."""

    source: Endpoint
    target: Endpoint
    pieces: deque[tuple[float, bytes | None]] = attrs.field(factory=deque)
    is_closed: bool = False
    """Whether its reader has closed its end."""


class MemoryStream(trio.abc.Stream):
    """One end of a connection."""

    def __init__(self, network: MemoryNetwork, connection: Connection, outgoing: Pipe, incoming: Pipe) -> None:
        self._network = network
        self._connection = connection
        self._outgoing = outgoing
        self._incoming = incoming
        self._closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self._check_open()
        if self._outgoing.is_closed:
            raise trio.BrokenResourceError
        data = bytes(data)
        if self._network.loses(self._connection, self._outgoing, data):
            self._connection.is_broken = True
        else:
            self._put(data)
        self._connection.changed.unpark_all()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        while True:
            self._check_open()
            incoming = self._incoming
            if not incoming.pieces or self._network.is_cut(incoming.source, incoming.target):
                await self._connection.changed.park()
                continue
            arrives_at, data = incoming.pieces[0]
            if arrives_at > trio.current_time():
                await trio.sleep_until(arrives_at)
                continue
            if data is None:
                return b""
            incoming.pieces.popleft()
            if max_bytes is not None and len(data) > max_bytes:
                incoming.pieces.appendleft((arrives_at, data[max_bytes:]))
                data = data[:max_bytes]
            return data

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = self._incoming.is_closed = True
            self._put(None)
            self._connection.changed.unpark_all()
        await trio.lowlevel.checkpoint()

    def _put(self, data: bytes | None) -> None:
        pieces = self._outgoing.pieces
        arrives_at = trio.current_time() + self._network.latency_s()
        pieces.append((max(arrives_at, pieces[-1][0]) if pieces else arrives_at, data))

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError
        if self._connection.is_broken:
            raise trio.BrokenResourceError


@attrs.define
class MemoryNetwork:
    """Endpoints by name.

    Between endpoints that are cut nothing arrives: what was sent waits for the cut to end, unless
    `break_cut_streams` resets the connection.  New connections are refused, or, where `is_silent`, wait too.
    """

    listeners: dict[Endpoint, MemoryListener] = attrs.field(factory=dict)
    connections: list[Connection] = attrs.field(factory=list)
    is_cut: Callable[[Endpoint, Endpoint], bool] = lambda _source, _target: False
    is_silent: bool = False
    latency_s: Callable[[], float] = lambda: 0.0
    _new_cut: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    requests_sent: Counter[tuple[str, int]] = attrs.field(factory=Counter)
    """How many requests each host has sent, by API key."""
    _answers_to_lose: Counter[int] = attrs.field(factory=Counter)

    def seen_from(self, source: Endpoint) -> NodeNetwork:
        return NodeNetwork(self, source)

    def cut(self, is_cut: Callable[[Endpoint, Endpoint], bool], *, silent: bool = False) -> None:
        """Cut from now on what `is_cut` says; what is no longer cut is delivered."""
        self.is_cut, self.is_silent = is_cut, silent
        if not silent:
            self.break_cut_streams()
        for connection in self.connections:
            connection.changed.unpark_all()
        self._new_cut.unpark_all()

    def break_cut_streams(self) -> None:
        """Reset every connection between endpoints that are cut from each other now."""
        for connection in self.connections:
            ends = connection.source, connection.target
            if self.is_cut(*ends) or self.is_cut(*reversed(ends)):
                connection.is_broken = True
                connection.changed.unpark_all()
        self.connections = [connection for connection in self.connections if not connection.is_broken]

    async def wait_for_new_cut(self) -> None:
        await self._new_cut.park()

    def lose_answers(self, api: Api[Any, Any], times: int = 1) -> None:
        """Lose the next answers to requests of that API, each with its connection."""
        self._answers_to_lose[api.key] += times

    def lose_no_more_answers(self) -> None:
        self._answers_to_lose.clear()

    def answers_still_to_lose(self, api: Api[Any, Any]) -> int:
        return self._answers_to_lose[api.key]

    def loses(self, connection: Connection, pipe: Pipe, data: bytes) -> bool:
        """Note what is sent; whether it gets lost."""
        if pipe.source is connection.source:
            connection.last_request = int.from_bytes(data[4:6], "big")
            self.requests_sent[pipe.source.host, connection.last_request] += 1
            return False
        if self._answers_to_lose[connection.last_request] <= 0:
            return False
        self._answers_to_lose[connection.last_request] -= 1
        return True


@attrs.frozen
class NodeNetwork:
    """The network as one node sees it."""

    network: MemoryNetwork
    source: Endpoint

    async def connect(self, endpoint: Endpoint) -> trio.abc.Stream:
        network = self.network
        await trio.lowlevel.checkpoint()
        while network.is_silent and network.is_cut(self.source, endpoint):
            await network.wait_for_new_cut()
        listener = network.listeners.get(endpoint)
        if listener is None or network.is_cut(self.source, endpoint):
            raise NetworkError(f"{endpoint}: refused")
        connection = Connection(attrs.evolve(self.source), endpoint)
        network.connections.append(connection)
        there, back = Pipe(connection.source, endpoint), Pipe(endpoint, connection.source)
        try:
            await listener.incoming.send(MemoryStream(network, connection, back, there))
        except trio.BrokenResourceError:
            raise NetworkError(f"{endpoint}: refused") from None
        return MemoryStream(network, connection, there, back)

    async def listen(self, endpoint: Endpoint) -> MemoryListener:
        if endpoint in self.network.listeners:
            raise OSError(98, f"Address already in use: {endpoint}")
        listener = MemoryListener(self.network, endpoint)
        self.network.listeners[endpoint] = listener
        return listener
