"""TCP connections whose peer is gone: what the system can do about them, and what it knows."""

from __future__ import annotations

import socket
import sys
from typing import Final

_KEEPALIVE: Final = (("TCP_KEEPIDLE", "TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", "", 10), ("TCP_KEEPCNT", "", 3))
"""The options, what macOS calls them instead, and the values: seconds, seconds and a number of probes."""
_CLOSED_BY_PEER: Final = (b"\x07", b"\x08")
"""TCP_CLOSE and TCP_CLOSE_WAIT of Linux, as its TCP_INFO begins with them."""
_TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_USER_TIMEOUT: Final[int | None] = getattr(socket, "TCP_USER_TIMEOUT", None)


def probe_when_idle(connected: socket.socket) -> None:
    """Let the kernel probe an idle peer.  The connection ends about 90 s after the peer loses its power or its route.

    Without the probes, such a connection would count towards the limits for ever.
    """
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, other_name, value in _KEEPALIVE:
        option = getattr(socket, name, None) or getattr(socket, other_name, None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


def end_when_stuck(listening: socket.socket, timeout_ms: int) -> None:
    """Let the kernel end accepted connections whose peer takes no data for that long.  Only Linux can."""
    if _USER_TIMEOUT is not None:
        listening.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, timeout_ms)


def closed_by_peer(connected: socket.socket) -> bool:
    """Whether the peer has closed or reset the connection.

    Only Linux knows before all that the peer sent has been received; elsewhere the answer is False until then.
    """
    if _TCP_INFO is not None:
        return connected.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1) in _CLOSED_BY_PEER
    try:
        return not connected.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
