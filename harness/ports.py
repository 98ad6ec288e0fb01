"""Loopback ports that are free, and that stay so until their owner listens."""

from __future__ import annotations

import random
import socket
from collections import deque
from collections.abc import Iterator
from itertools import islice

LISTENER_PORTS = range(20000, 32000)
"""Below the kernel's range for outgoing connections.

No other program takes the port of a stopped node, and no client that tries to reach it ends up connected to itself.
"""

MAX_RESERVED = 300
"""How many sockets hold ports at a time; the process needs descriptors for other things, too."""

_reserved: deque[socket.socket] = deque()


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that no process listens on now, and that `free_ports` gives to nobody else.

    A socket of this process stays bound to each port, also while a node is down.  It does not listen, so a server that
    sets SO_REUSEADDR can bind the port nevertheless.
    """
    return list(islice(_free_ports(), count))


def _free_ports() -> Iterator[int]:
    for port in random.sample(LISTENER_PORTS, len(LISTENER_PORTS)):
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))  # without SO_REUSEADDR, which would bind in addition to another holder
        except OSError:
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _reserved.append(holder)
        if len(_reserved) > MAX_RESERVED:
            _reserved.popleft().close()
        yield port
