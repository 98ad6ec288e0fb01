"""Decides when to close a connection: it never sent a request, is idle, or transfers its bytes too slowly.

The rule inspects each connection from time to time, so a request pays nothing for it.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class ConnectionLimits:
    first_request_s: float
    """The time within which a new connection must send a valid request."""
    idle_s: float
    """How long a connection may be idle."""
    min_bytes_per_s: int = 128 * 1024
    """The least rate of a transfer that holds memory; 0: no limit."""
    frame_grace_s: float = 5.0
    """How far a started frame may lag behind that rate.  Honest peers send a frame at once."""
    answer_grace_s: float = 60.0
    """How far a response may lag.  A consumer reads nothing while it works on earlier records."""


@attrs.frozen
class Activity:
    """What a connection has done since it was opened, and its present state."""

    requests: int = 0
    """Valid requests that it has sent."""
    received: int = 0
    """Bytes."""
    is_within_frame: bool = False
    unanswered: int = 0
    """Requests without a response so far."""
    sent: int = 0
    """Bytes."""
    has_unsent: bool = False
    """Whether the peer has not received all of a response yet."""
    peer_has_closed: bool = False
    """Whether the peer has closed it while its last requests still wait."""


@attrs.define
class _Pace:
    """The start of one transfer: when it was first seen, and the byte count then."""

    began_s: float
    bytes_before: int

    def lags(self, moved: int, now_s: float, grace_s: float, min_bytes_per_s: int) -> bool:
        return (now_s - self.began_s - grace_s) * min_bytes_per_s > moved - self.bytes_before


class ConnectionWatch:
    """Judges one connection by its activity.  `now_s` never falls from one look to the next."""

    def __init__(self, limits: ConnectionLimits, now_s: float) -> None:
        self.quiet_since_s = now_s
        """When the connection was last seen active."""
        self._limits = limits
        self._seen = Activity()
        self._frame: _Pace | None = None
        self._answer: _Pace | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing was in progress at the last look."""
        seen = self._seen
        return not (seen.is_within_frame or seen.unanswered or seen.has_unsent)

    def look(self, activity: Activity, now_s: float) -> str | None:
        """Why to close the connection, or None if it may stay."""
        before, self._seen = self._seen, activity
        if activity.peer_has_closed and activity == before:
            return "its peer has closed it"
        if activity != before:
            self.quiet_since_s = now_s
        if not activity.is_within_frame or activity.requests != before.requests:
            self._frame = None
        if not activity.has_unsent:
            self._answer = None
        if activity.is_within_frame and self._frame is None:
            self._frame = _Pace(now_s, activity.received)
        if activity.has_unsent and self._answer is None:
            self._answer = _Pace(now_s, activity.sent)
        return self._reason(activity, now_s)

    def _reason(self, activity: Activity, now_s: float) -> str | None:
        limits = self._limits
        rate = limits.min_bytes_per_s
        if self._frame is not None and self._frame.lags(activity.received, now_s, limits.frame_grace_s, rate):
            return "a request comes too slowly"
        if self._answer is not None and self._answer.lags(activity.sent, now_s, limits.answer_grace_s, rate):
            return "an answer is taken too slowly"
        quiet_s = now_s - self.quiet_since_s
        if not activity.requests and not activity.is_within_frame and quiet_s >= self._limits.first_request_s:
            return f"no request within {self._limits.first_request_s:g} s"
        if self.is_idle and quiet_s >= self._limits.idle_s:
            return f"idle for {self._limits.idle_s:g} s"
        return None
