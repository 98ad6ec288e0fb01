"""The simulated network as one host sees it: connecting and listening."""

from __future__ import annotations

import errno
import os
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Final

import attrs
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.network.alarm import Alarm
from kraft_trio.simulation.network.link import SYN_RETRANSMISSION_S, Link
from kraft_trio.simulation.network.simulated_stream import SimulatedConnection
from kraft_trio.wire.immediate_stream import ImmediateStream

if TYPE_CHECKING:
    from kraft_trio.simulation.network.simulated_network import SimulatedNetwork

BACKLOG: Final = 128
"""How many connections may wait to be accepted; who connects beyond that waits."""
SYN_TRIES: Final = 7
"""How often the opening of a connection is tried before it fails, 127 s later (Linux: tcp_syn_retries = 6)."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_EPHEMERAL_PORTS: Final = 49152


class SimulatedListener:
    """A Listener.  Connections wait in it, each until the time at which it arrives."""

    def __init__(self, network: SimulatedNetwork, endpoint: Endpoint, host: str) -> None:
        self._network = network
        self._endpoint = endpoint
        self.host = host
        self._is_closed = False
        self._waiting: list[tuple[float, int, SimulatedConnection]] = []
        self._acceptable = Alarm()

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
        if self._acceptable.is_awaited and not self._is_closed:
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
        """Stop listening; what was not accepted yet is reset."""
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


@attrs.frozen
class HostNetwork:
    """A Network: what one process of a host uses."""

    network: SimulatedNetwork
    host: str
    life: int
    """How many processes of the host had ended before."""

    @property
    def _is_over(self) -> bool:
        """Whether the process has ended: some of its tasks may still take a step, and nothing may come of it."""
        return self.life != self.network.lives[self.host]

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        """TCP's three-way handshake, over the links as they are at each of its steps."""
        network = self.network
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_over:
            raise _failed(errno.ENETDOWN)
        network.power_on(self.host)
        target = self.host if endpoint.host in _LOOPBACK else endpoint.host
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
        """One SYN and its answer; None where either is lost, or the queue is full."""
        self._refuse_if_cut(there, back)
        if there.lost_handshake():
            return None
        await trio.sleep(there.latency_s())
        self._refuse_if_cut(there, back)
        if not there.passes_handshakes() or not self.network.is_up(there.target):
            return None
        listener = self.network.listeners.get((there.target, endpoint.port))
        if listener is not None and listener.is_full:
            return None
        if back.lost_handshake():
            return None
        if listener is None:
            await trio.sleep(back.latency_s())
            raise _failed(errno.ECONNREFUSED)
        connection = self.network.connect(self.host, listener)
        listener.offer(connection, trio.current_time())
        try:
            await trio.sleep(back.latency_s())
        except BaseException:
            with trio.CancelScope(shield=True):
                await connection.opener_end.aclose()
            raise
        return connection

    def _refuse_if_cut(self, there: Link, back: Link) -> None:
        if there.resets or back.resets:
            raise _failed(errno.ECONNREFUSED)

    async def listen(self, endpoint: Endpoint) -> SimulatedListener:
        await trio.lowlevel.checkpoint()
        if self._is_over:
            raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))
        self.network.power_on(self.host)
        if endpoint.host not in ("", "0.0.0.0", "::", self.host, *_LOOPBACK):
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
    """As the real network says it, with what the operating system says behind it."""
    error = NetworkError(f"cannot connect: {os.strerror(number)}")
    error.__cause__ = OSError(number, os.strerror(number))
    return error
