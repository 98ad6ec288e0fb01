"""What others demand of a node and what it has refused of that, as metrics."""

from __future__ import annotations

import attrs

from kraft_trio.limits.refusals import Refusals


@attrs.frozen
class NodeLoad:
    """The state at one time."""

    refusals: Refusals
    connections: int = 0
    """Open ones."""
    request_bytes: int = 0
    """Those of `queued.max.request.bytes` that are taken."""
    slowed_requests: int = 0
    """Requests that have waited for such bytes, since the start."""

    def values(self) -> dict[str, float]:
        """The values by the names of the metrics."""
        refused = self.refusals
        return {
            "number-of-connections": self.connections,
            "number-of-refused-connections": refused.connections,
            "number-of-cut-connections": refused.cut_connections,
            "number-of-malformed-requests": refused.malformed_requests,
            "number-of-failed-tls-handshakes": refused.tls_handshakes,
            "number-of-failed-authentications": refused.authentications,
            "number-of-expired-sessions": refused.expired_sessions,
            "number-of-denied-requests": refused.denied_requests,
            "number-of-refused-voter-changes": refused.voter_changes,
            "number-of-throttled-voter-changes": refused.throttled_voter_changes,
            "number-of-refused-waits": refused.waits,
            "number-of-refused-streams": refused.streams,
            "number-of-paused-connections": refused.pauses,
            "number-of-refused-batches": refused.batches,
            "number-of-refused-epochs": refused.epochs,
            "number-of-refused-addresses": refused.addresses,
            "request-memory-bytes": self.request_bytes,
            "number-of-slowed-requests": self.slowed_requests,
        }
