"""Which requests have been applied, and with what outcome: so that a retry is recognized and not applied again.

Every replica folds the same table from the log, so all of them recognize the same retries.  The table is bounded.
When it forgets a request, its floor rises above the time at which that request was issued.  A retry from below the
floor that is not in the table may have been applied, so it is refused.

Only differences of clocks matter, between the nodes that issue ids and those that append records.  An id may be issued
`AHEAD_MS` after the timestamp of its record; one further ahead is refused.  Otherwise, a single wrong clock could raise
the floor above everybody else's time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.request_ids import issued_at_ms

MAX_REQUESTS: Final = 100_000
MAX_AGE_MS: Final = 60 * 60 * 1000
MAX_OUTCOME_BYTES: Final = 64 * 1024 * 1024
AHEAD_MS: Final = 5 * 60 * 1000


class Standing(Enum):
    """What to do with a request."""

    NEW = auto()
    """Apply it."""
    APPLIED = auto()
    """It was applied before.  Its outcome is in the table."""
    TOO_OLD = auto()
    """It may have been applied before.  Do not apply it."""
    FROM_THE_FUTURE = auto()
    """It was never applied, and is not applied now."""


@attrs.frozen
class AppliedRequest:
    """A request that was applied: its id, the timestamp of its record, and the encoded outcome."""

    request_id: UUID
    timestamp_ms: int
    outcome: bytes


@attrs.frozen
class RequestLimits:
    """Bounds of the table.  They must be equal on all replicas, so they are not configurable."""

    max_requests: int = MAX_REQUESTS
    max_age_ms: int = MAX_AGE_MS
    max_outcome_bytes: int = MAX_OUTCOME_BYTES


class RequestTable:
    """The newest requests in the order of the log."""

    def __init__(
        self, applied: Iterable[AppliedRequest] = (), floor_ms: int = 0, limits: RequestLimits | None = None
    ) -> None:
        self._limits = limits or RequestLimits()
        self._applied = OrderedDict((request.request_id, request) for request in applied)
        self._outcome_bytes = sum(len(request.outcome) for request in self._applied.values())
        self.floor_ms = floor_ms
        """Requests that were issued earlier and are not in the table may have been forgotten."""

    def __len__(self) -> int:
        return len(self._applied)

    def __iter__(self) -> Iterator[AppliedRequest]:
        return iter(self._applied.values())

    def get(self, request_id: UUID) -> AppliedRequest | None:
        return self._applied.get(request_id)

    def standing(self, request_id: UUID, timestamp_ms: int) -> Standing:
        """Judge a request whose record has that timestamp."""
        if request_id in self._applied:
            return Standing.APPLIED
        issued_ms = issued_at_ms(request_id)
        if issued_ms < self.floor_ms:
            return Standing.TOO_OLD
        return Standing.NEW if issued_ms <= timestamp_ms + AHEAD_MS else Standing.FROM_THE_FUTURE

    def add(self, request: AppliedRequest) -> None:
        """Note that a new request was applied, and forget the oldest ones that exceed a limit."""
        assert request.request_id not in self._applied, f"request {request.request_id} is applied once"
        self._applied[request.request_id] = request
        self._outcome_bytes += len(request.outcome)
        while self._applied and self._exceeds_a_limit(request.timestamp_ms):
            _, forgotten = self._applied.popitem(last=False)
            self._outcome_bytes -= len(forgotten.outcome)
            issued_ms = min(issued_at_ms(forgotten.request_id), request.timestamp_ms + AHEAD_MS)
            self.floor_ms = max(self.floor_ms, issued_ms + 1)

    def _exceeds_a_limit(self, now_ms: int) -> bool:
        limits = self._limits
        if len(self._applied) > limits.max_requests or self._outcome_bytes > limits.max_outcome_bytes:
            return True
        oldest = next(iter(self._applied.values()))
        return now_ms - oldest.timestamp_ms > limits.max_age_ms
