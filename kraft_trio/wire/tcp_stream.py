"""A TCP stream that needs fewer system calls and scheduler rounds for each message than Trio's own.

It uses the public `trio.lowlevel.wait_readable` and `wait_writable`.  A receive waits first and reads once.  A send
writes first, and waits only if the kernel did not take everything.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from kraft_trio.forked import when_forked
from kraft_trio.system.connections import closed_by_peer, probe_when_idle
from kraft_trio.wire.network import ImmediateStream

RECEIVE_BYTES = 64 * 1024

_MAX_PARTS: Final = 1024
"""IOV_MAX of Linux."""


def _peer_host(connected: socket.socket) -> str:
    """The peer's address.  An IPv4 address looks the same on an IPv6 socket and on an IPv4 socket."""
    try:
        name = connected.getpeername()
    except OSError:
        return ""  # The peer has gone already.
    host = str(name[0]) if isinstance(name, tuple) else ""
    return host.removeprefix("::ffff:")


class TcpStream(ImmediateStream):
    """Owns a connected, non-blocking socket.  One task may send and one may receive at a time."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        with suppress(OSError):  # macOS refuses it if the peer has gone already, which the first use will tell.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            probe_when_idle(connected)
        self._socket = connected
        when_forked(connected, socket.socket.close)
        self.peer_host = _peer_host(connected)

    @classmethod
    def taking_over(cls, stream: trio.SocketStream) -> TcpStream:
        """Adopt the connection of a Trio stream, which is closed.  Raises OSError if no descriptor is left."""
        taken = stream.socket
        try:
            # With the first three arguments, it asks the system nothing, which could fail.
            return cls(socket.socket(taken.family, taken.type, taken.proto, fileno=os.dup(taken.fileno())))
        finally:
            taken.close()

    def send_now(self, *parts: bytes | memoryview) -> int:
        """Give the kernel as many bytes as it takes without waiting, and return how many it took."""
        self._check_open()
        try:
            if len(parts) == 1:
                return self._socket.send(parts[0])
            return self._socket.sendmsg(parts[:_MAX_PARTS])  # type: ignore[attr-defined,no-any-return,unused-ignore]
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(f"connection broken: {error}") from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything.  A cancelled send may have sent a part."""
        await trio.lowlevel.checkpoint_if_cancelled()
        with memoryview(data) as view:
            sent = self.send_now(view)
            while sent < len(view):
                await self._wait(trio.lowlevel.wait_writable)
                sent += self.send_now(view[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        await self._wait(trio.lowlevel.wait_writable)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive up to `max_bytes`.  Returns b"" after the peer has closed its side."""
        while True:
            self._check_open()
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes or RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError(f"connection broken: {error}") from error

    async def receive_into(self, buffer: memoryview) -> int:
        """Receive into the buffer without a copy in between.  Returns the number of bytes, 0 after the peer has closed.

        This is a checkpoint only if it has to wait.  It is meant for the rest of a frame, after a wait for its start.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            self._check_open()
            try:
                return self._socket.recv_into(buffer)
            except BlockingIOError:
                await self._wait(trio.lowlevel.wait_readable)
            except OSError as error:
                raise trio.BrokenResourceError(f"connection broken: {error}") from error

    async def send_eof(self) -> None:
        """Tell the peer that nothing more comes.  Receiving continues."""
        await trio.lowlevel.checkpoint()
        self._check_open()
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise trio.BrokenResourceError(f"connection broken: {error}") from error

    def peer_has_closed(self) -> bool:
        return self._socket.fileno() >= 0 and closed_by_peer(self._socket)

    async def _wait(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        self._check_open()
        await wait(self._socket)

    def _check_open(self) -> None:
        if self._socket.fileno() < 0:
            raise trio.ClosedResourceError("the stream was closed")

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
        await trio.lowlevel.checkpoint()
