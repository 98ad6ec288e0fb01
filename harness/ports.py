"""Loopback ports that are free."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

LISTENER_PORTS = range(20000, 32000)
"""Below the kernel's range for outgoing connections.

No other program takes the port of a stopped node, and no client that tries to reach it ends up connected to itself.
"""


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that no process listens on now."""
    return [port for port, _ in zip(_free_ports(), range(count), strict=False)]


def _free_ports() -> Iterator[int]:
    for port in random.sample(LISTENER_PORTS, len(LISTENER_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port
