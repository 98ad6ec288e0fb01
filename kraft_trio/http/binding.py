"""Binds the address on which an HTTP server listens."""

from __future__ import annotations

import os
import socket
from typing import Final

from kraft_trio.errors import AddressError
from kraft_trio.forked import when_forked
from kraft_trio.protocol.types import Endpoint
from kraft_trio.system.connections import end_when_stuck

BACKLOG: Final = 128
STUCK_TIMEOUT_MS: Final = 120_000
"""A connection whose client does not read, or is gone without a word, ends after this time."""


def bound(key: str, endpoint: Endpoint, scheme: str = "HTTP") -> socket.socket:
    """A socket that listens on the address that the configuration key `key` names.  Raises AddressError."""
    try:
        found = socket.getaddrinfo(
            endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        listening = socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise AddressError(f"{key}={scheme}://{endpoint}: cannot be bound: {reason}") from error
    end_when_stuck(listening, STUCK_TIMEOUT_MS)
    when_forked(listening, socket.socket.close)
    return listening
