"""Counts what a node has refused or slowed at a limit, so that its metrics show an attack."""

from __future__ import annotations

import attrs


@attrs.define
class Refusals:
    """What a node refused.  The code that refuses counts; the metrics read.  All numbers are since the start."""

    connections: int = 0
    """New connections without a place."""
    cut_connections: int = 0
    """Connections closed because they were idle or slow, or had to make room."""
    malformed_requests: int = 0
    """Connections closed because of bytes that are no served request."""
    tls_handshakes: int = 0
    authentications: int = 0
    """Failed or abandoned ones of SASL, and failed ones of HTTP."""
    expired_sessions: int = 0
    """Connections closed because their clients had not authenticated again."""
    denied_requests: int = 0
    """Requests that the authorizer did not allow."""
    voter_changes: int = 0
    """Requests for voter changes while too many waited."""
    throttled_voter_changes: int = 0
    """Requests for voter changes that came too fast."""
    waits: int = 0
    """Fetches answered at once because too many waited."""
    streams: int = 0
    """Endless responses of HTTP without a place, or ended for one of another address."""
    pauses: int = 0
    """How often a connection was not read because its client had not taken earlier answers."""
    batches: int = 0
    """Produced batches whose records are damaged or exceed a limit."""
    epochs: int = 0
    """Messages that named an epoch too far ahead."""
    addresses: int = 0
    """Requests of leaders at an address that nobody else knows, while this node heard its own leader."""

    def refused_stream(self) -> None:
        self.streams += 1
