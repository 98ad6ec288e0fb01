"""A TCP stream with fewer system calls and scheduler rounds a message than Trio's own, and a send that does not wait.

Built on the public `trio.lowlevel.wait_readable` and `wait_writable`.  A receive waits first and reads once; a send
writes first and waits only for what the kernel did not take.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from kraft_trio.wire.immediate_stream import ImmediateStream

RECEIVE_BYTES = 64 * 1024

_MAX_PARTS: Final = 1024
"""IOV_MAX of Linux."""

_CLOSED_BY_PEER: Final = (b"\x07", b"\x08")
"""TCP_CLOSE and TCP_CLOSE_WAIT of Linux, as TCP_INFO begins with them."""


def _give_up_on_vanished_peers(connected: socket.socket) -> None:
    """Let the kernel ask after an idle peer: one that lost its power or its route is gone after about 90 s.

    It would otherwise hold its place among the connections for ever.
    """
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _peer_host(connected: socket.socket) -> str:
    """An IPv4 address is the same whichever socket it came in through."""
    try:
        name = connected.getpeername()
    except OSError:
        return ""  # It is gone already, as the first read will tell.
    host = str(name[0]) if isinstance(name, tuple) else ""
    return host.removeprefix("::ffff:")


class TcpStream(ImmediateStream):
    """Owns a connected, non-blocking socket.  One task may send and one may receive at a time."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _give_up_on_vanished_peers(connected)
        self._socket = connected
        self.peer_host = _peer_host(connected)

    @classmethod
    def taking_over(cls, stream: trio.SocketStream) -> TcpStream:
        """The same connection as that of a Trio stream, which must not be used any more."""
        return cls(socket.socket(fileno=os.dup(stream.socket.fileno())))

    def send_now(self, *parts: bytes | memoryview) -> int:
        """Give the kernel as much as it takes without waiting; how many bytes that was.

        Raises trio.BrokenResourceError when the connection is, trio.ClosedResourceError when this stream is.
        """
        self._check_open()
        try:
            return self._socket.send(parts[0]) if len(parts) == 1 else self._socket.sendmsg(parts[:_MAX_PARTS])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(f"connection broken: {error}") from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything; a cancelled send may have sent a part."""
        await trio.lowlevel.checkpoint_if_cancelled()
        with memoryview(data) as view:
            sent = self.send_now(view)
            while sent < len(view):
                await self._wait(trio.lowlevel.wait_writable)
                sent += self.send_now(view[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        await self._wait(trio.lowlevel.wait_writable)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Up to `max_bytes`; b"" once the peer has sent its last."""
        while True:
            await self._wait(trio.lowlevel.wait_readable)
            try:
                return self._socket.recv(max_bytes or RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError(f"connection broken: {error}") from error

    async def receive_into(self, buffer: memoryview) -> int:
        """As much as there is, and there is room for, without a copy in between; 0 once the peer has sent its last.

        It waits only where there is nothing, and then alone is a schedule point: for the rest of a frame whose start
        was waited for.
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

    def peer_has_closed(self) -> bool:
        if self._socket.fileno() < 0 or not hasattr(socket, "TCP_INFO"):
            return False
        return self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) in _CLOSED_BY_PEER

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
