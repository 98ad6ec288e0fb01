"""What a client of an HTTP server may use."""

from __future__ import annotations

import attrs


@attrs.frozen
class HttpLimits:
    """A client that exceeds a limit is refused or disconnected."""

    connections: int
    per_host: int = 0
    """Connections of one address; 0 for no limit."""
    idle_s: float = 300.0
    """Time that a connection may stay open between requests."""
    head_s: float = 30.0
    body_s: float = 60.0
    """Time for the whole body of a request that has one answer.  A stream's messages may come at any time."""
    body_bytes: int = 64 * 1024 * 1024
    """Memory for large bodies, until their requests are answered."""
    send_s: float = 120.0
    """Time in which a client must read what is sent to it at once."""
    head_bytes: int = 64 * 1024
    """Bytes in a row that complete nothing: neither a head nor a part of a body.  A head may be twice as large."""
