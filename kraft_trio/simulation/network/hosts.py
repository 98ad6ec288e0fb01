"""Hosts, their view of the network, and what becomes of their connections."""

from __future__ import annotations

import errno
import os
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Final

import attrs
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.deterministic import Timer, sleep
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.link import SYN_RETRANSMISSION_S, Link
from kraft_trio.simulation.network.link_faults import Cut, LinkSettings
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.network.simulated_stream import SimulatedConnection, SimulatedStream
from kraft_trio.wire.network import ImmediateStream, Network

BACKLOG: Final = 128
"""How many connections may wait to be accepted.  Further ones wait to be opened."""
SYN_TRIES: Final = 7
"""How often the opening of a connection is tried; it fails after 127 s (Linux: tcp_syn_retries = 6)."""
LOOPBACK: Final = LinkSettings(Latency.constant(0.0))
"""The link from a host to itself."""
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_EPHEMERAL_PORTS: Final = 49152


class SimulatedListener:
    """A Listener.  Each connection waits in it until the time at which it arrives."""

    def __init__(self, network: Hosts, endpoint: Endpoint, host: str) -> None:
        self._network = network
        self._endpoint = endpoint
        self.host = host
        self._is_closed = False
        self._waiting: list[tuple[float, int, SimulatedConnection]] = []
        self._acceptable = Timer()

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= BACKLOG

    def offer(self, connection: SimulatedConnection, at: float) -> None:
        """Let the connection be accepted from that time on."""
        heappush(self._waiting, (at, connection.number, connection))
        self._acceptable.move_to(self._waiting[0][0])

    async def accept(self) -> ImmediateStream:
        if self._acceptable.waiter is not None and not self._is_closed:
            raise trio.BusyResourceError("another task is accepting")
        await trio.lowlevel.checkpoint()
        while True:
            if self._is_closed:
                raise trio.ClosedResourceError("the listener was closed")
            at = self._waiting[0][0] if self._waiting else inf
            if at <= trio.current_time():
                return heappop(self._waiting)[2].acceptor_end
            await self._acceptable.wait_until(at)

    def close(self) -> None:
        """Stop listening, and reset connections that were not accepted."""
        if self._is_closed:
            return
        self._is_closed = True
        self._network.listeners.pop((self.host, self._endpoint.port), None)
        waiting, self._waiting = sorted(self._waiting, key=lambda entry: entry[:2]), []
        for _, _, connection in waiting:
            connection.acceptor_end.die(silent=not self._network.is_up(self.host))
        self._acceptable.move_to(-inf)

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


class Hosts(ABC):
    """The hosts, the links between them, and their open connections; see SimulatedNetwork."""

    def __init__(self, random_source: random.Random, on_message: Callable[[Message], object] | None) -> None:
        self.on_message = on_message
        self.listeners: dict[tuple[str, int], SimulatedListener] = {}
        self.lives: Counter[str] = Counter()
        """How many processes of each host have ended."""
        self.names: dict[str, tuple[str, ...]] = {}
        """The hosts that a name resolves to, if it is not the name of a single host."""
        self.balanced: Counter[str] = Counter()
        """How many connections were opened to each of these names."""
        self.services: dict[Endpoint, Endpoint] = {}
        """Where connections to a stable address go now, as with the virtual address of a service."""
        self._seed = random_source.getrandbits(64)
        self._hosts: dict[str, bool] = {}
        """Whether the machine is on."""
        self._links: dict[tuple[str, str], Link] = {}
        self._default = LinkSettings()
        self._cuts: list[Cut] = []
        self._connections: dict[int, SimulatedConnection] = {}
        self._connection_number = 0
        self._message_number = 0

    def seen_from(self, host: str) -> Network:
        """The network as seen by a process of that host, until `disconnect_host` ends the process.

        The host need not exist yet.
        """
        if not host:
            raise ValueError("host='': the name of a host was expected")
        self._hosts.setdefault(host, True)
        return HostNetwork(self, host, self.lives[host])

    def knows(self, host: str) -> bool:
        return host in self._hosts

    def is_up(self, host: str) -> bool:
        return self._hosts.get(host, False)

    def disconnect_host(self, host: str, *, silent: bool) -> None:
        """End the process on that host, without closing anything.

        Its listeners and connections are gone.  After kill -9, its kernel resets the connections of its peers.
        `silent` means that the machine is off: peers hear nothing, and connecting to it waits.  A peer learns of that
        when keep-alive gives up, or by a reset if it sends something after the machine is on again.  That happens when
        its next process listens or connects, or by `power_on`.
        """
        self.lives[host] += 1
        if silent:
            self._hosts[host] = False
        for listener in [listener for listener in self.listeners.values() if listener.host == host]:
            listener.close()
        for connection in list(self._connections.values()):
            for end in connection.ends:
                if end.host == host:
                    end.die(silent=silent)

    def power_on(self, host: str) -> None:
        """Switch the machine on: it answers, even if no process listens."""
        if self._hosts.get(host) is not True:
            self._hosts[host] = True
            for connection in list(self._connections.values()):
                for end in connection.ends:
                    if end.host == host:
                        end.incoming.target_host_is_up()

    @property
    def connection_count(self) -> int:
        """The number of connections with at least one open end."""
        return len(self._connections)

    def link(self, source: str, target: str) -> Link:
        """The link from one host to another, made when it is first needed."""
        link = self._links.get((source, target))
        if link is None:
            settings = LOOPBACK if source == target else self._default
            link = Link(source, target, random.Random(f"{self._seed}/{source}/{target}"), settings)
            link.block_by(self._cuts)
            self._links[source, target] = link
        return link

    # Called by streams and listeners

    def connect(self, opener: str, listener: SimulatedListener) -> SimulatedConnection:
        """Open a connection that the listener does not know yet."""
        self._connection_number += 1
        connection = SimulatedConnection(self, self._connection_number, opener, listener.host)
        connection.endpoint = listener.endpoint
        self._connections[connection.number] = connection
        return connection

    def forget(self, connection: SimulatedConnection) -> None:
        """Both ends are closed."""
        if self._connections.pop(connection.number, None) is not None:
            for end in connection.ends:
                end.outgoing.link.pipes.pop(connection.number, None)

    def next_message_number(self) -> int:
        self._message_number += 1
        return self._message_number - 1

    def report(self, message: Message) -> None:
        if self.on_message is not None:
            self.on_message(message)

    @abstractmethod
    def send(self, end: SimulatedStream, data: bytes, message: Message | None) -> None:
        """Send bytes that end with the frame of `message`; without a message, they end within a frame."""


@attrs.frozen
class HostNetwork:
    """A Network, used by one process of a host."""

    network: Hosts
    host: str
    life: int
    """How many processes of the host had ended before this one."""

    @property
    def _is_over(self) -> bool:
        """Whether the process has ended.  Some of its tasks may still take a step, which must have no effect."""
        return self.life != self.network.lives[self.host]

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        """TCP's three-way handshake, over the links as they are at each step."""
        network = self.network
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_over:
            raise _failed(errno.ENETDOWN)
        network.power_on(self.host)
        endpoint = network.services.get(endpoint, endpoint)
        target = self.host if endpoint.host in _LOOPBACK_NAMES else self._host_of(endpoint.host)
        if not network.knows(target):
            await trio.lowlevel.checkpoint()
            raise NetworkError(f"cannot connect: {endpoint.host}: the name is not known")
        there, back = network.link(self.host, target), network.link(target, self.host)
        interval = SYN_RETRANSMISSION_S
        for _ in range(SYN_TRIES):
            give_up_at = trio.current_time() + interval
            connection = await self._try_once(endpoint, there, back)
            if connection is not None:
                return connection.opener_end
            await trio.sleep_until(give_up_at)
            interval *= 2
        raise _failed(errno.ETIMEDOUT)

    async def _try_once(self, endpoint: Endpoint, there: Link, back: Link) -> SimulatedConnection | None:
        """Send one SYN and wait for its answer; None if either is lost, or the queue is full."""
        self._refuse_if_cut(there, back)
        if there.lost_handshake():
            return None
        await sleep(there.latency_s())
        self._refuse_if_cut(there, back)
        if not there.passes_handshakes() or not self.network.is_up(there.target):
            return None
        listener = self.network.listeners.get((there.target, endpoint.port))
        if listener is not None and listener.is_full:
            return None
        if back.lost_handshake():
            return None
        if listener is None:
            await sleep(back.latency_s())
            raise _failed(errno.ECONNREFUSED)
        connection = self.network.connect(self.host, listener)
        listener.offer(connection, trio.current_time())
        try:
            await sleep(back.latency_s())
        except BaseException:
            with trio.CancelScope(shield=True):
                await connection.opener_end.aclose()
            raise
        return connection

    def _refuse_if_cut(self, there: Link, back: Link) -> None:
        if there.resets or back.resets:
            raise _failed(errno.ECONNREFUSED)

    def _host_of(self, name: str) -> str:
        """The host behind a name, as a load balancer chooses it: another one for each connection."""
        hosts = self.network.names.get(name)
        if not hosts:
            return name
        self.network.balanced[name] += 1
        return hosts[self.network.balanced[name] % len(hosts)]

    async def addresses(self, host: str) -> tuple[str, ...]:
        """What the name server says now.  Looking up a host that has no other name takes no time."""
        return self.network.names.get(host, (host,))

    async def listen(self, endpoint: Endpoint) -> SimulatedListener:
        await trio.lowlevel.checkpoint()
        if self._is_over:
            raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))
        self.network.power_on(self.host)
        if endpoint.host not in ("", "0.0.0.0", "::", self.host, *_LOOPBACK_NAMES):
            raise OSError(errno.EADDRNOTAVAIL, f"{os.strerror(errno.EADDRNOTAVAIL)}: {endpoint}")
        port = endpoint.port
        if port == 0:
            port = _EPHEMERAL_PORTS
            while (self.host, port) in self.network.listeners:
                port += 1
        if (self.host, port) in self.network.listeners:
            raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {endpoint}")
        listener = SimulatedListener(self.network, Endpoint(self.host, port), self.host)
        self.network.listeners[self.host, port] = listener
        return listener


def _failed(number: int) -> NetworkError:
    """The error of the real network, with that of the operating system as its cause."""
    error = NetworkError(f"cannot connect: {os.strerror(number)}")
    error.__cause__ = OSError(number, os.strerror(number))
    return error
