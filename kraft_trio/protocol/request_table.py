"""Which requests have been applied, and with what outcome: so that a retry is recognized and not applied again.

Every replica folds the same table from the log, so all of them recognize the same retries.  The table is bounded, and
forgets the request that comes first in the log.  When it forgets one, its floor rises above the time at which that
request was issued.  A retry from below the floor that is not in the table may have been applied, so it is refused.

Times come from clients and from nodes whose clocks may be wrong, so no time makes the table forget: only the number of
later requests does, and the size of their outcomes.  A floor in the future of a record comes from a clock that was
ahead.  It is put aside, and refuses only requests that are older than `AHEAD_MS` by their own records.  So

- a request at most `AHEAD_MS` older or newer than its record is new, unless a newer one was forgotten already, and
- a forgotten request is applied again only if a clock was put back since it was applied, and its id and its new record
  are at most `AHEAD_MS` apart.

An id may be issued `AHEAD_MS` after the timestamp of its record; one further ahead is refused.
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
"""Only of a table that trusts times."""
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
    """The newest requests in the order of the log.

    A table trusts times until `distrust_times`, which records with the header `kraft.request.rule` ask for: it also
    forgets what is older than an hour by the newest record, and its floor never falls.  So a log gives the same state
    whenever it is read, also the part before the first such record.
    """

    def __init__(
        self,
        applied: Iterable[AppliedRequest] = (),
        floor_ms: int = 0,
        limits: RequestLimits | None = None,
        *,
        ahead_ms: int | None = None,
    ) -> None:
        self._limits = limits or RequestLimits()
        self._applied = OrderedDict((request.request_id, request) for request in applied)
        self._outcome_bytes = sum(len(request.outcome) for request in self._applied.values())
        self.floor_ms = floor_ms
        """Requests that were issued earlier and are not in the table may have been forgotten."""
        self.ahead_ms = ahead_ms
        """The highest floor of a clock that was ahead, 0 if there was none.  None: the table trusts times."""

    def __len__(self) -> int:
        return len(self._applied)

    def __iter__(self) -> Iterator[AppliedRequest]:
        return iter(self._applied.values())

    def get(self, request_id: UUID) -> AppliedRequest | None:
        return self._applied.get(request_id)

    def distrust_times(self) -> None:
        """Judge by the rule above from now on."""
        if self.ahead_ms is None:
            self.ahead_ms = 0

    def standing(self, request_id: UUID, timestamp_ms: int) -> Standing:
        """Judge a request whose record has that timestamp."""
        if request_id in self._applied:
            return Standing.APPLIED
        issued_ms = issued_at_ms(request_id)
        if issued_ms < self._earliest_new_ms(timestamp_ms):
            return Standing.TOO_OLD
        return Standing.NEW if issued_ms <= timestamp_ms + AHEAD_MS else Standing.FROM_THE_FUTURE

    def _earliest_new_ms(self, timestamp_ms: int) -> int:
        """The first time of issue (inclusive) that is not too old for a record with that timestamp."""
        if self.ahead_ms is None:
            return self.floor_ms
        recent_ms = timestamp_ms - AHEAD_MS
        floor_ms = recent_ms if self._is_ahead(timestamp_ms) else self.floor_ms
        return max(floor_ms, min(self.ahead_ms, recent_ms))

    def _is_ahead(self, timestamp_ms: int) -> bool:
        # The floor is above the id that it forgot, which may have been issued AHEAD_MS after that timestamp.
        return self.floor_ms > timestamp_ms + AHEAD_MS + 1

    def add(self, request: AppliedRequest) -> None:
        """Note that a new request was applied, and forget the oldest ones that exceed a limit."""
        assert request.request_id not in self._applied, f"request {request.request_id} is applied once"
        if self.ahead_ms is not None and self._is_ahead(request.timestamp_ms):
            self.ahead_ms = max(self.ahead_ms, self.floor_ms)
            self.floor_ms = max(request.timestamp_ms - AHEAD_MS, 0)
        self._applied[request.request_id] = request
        self._outcome_bytes += len(request.outcome)
        while self._applied and self._exceeds_a_limit(request.timestamp_ms):
            _, forgotten = self._applied.popitem(last=False)
            self._outcome_bytes -= len(forgotten.outcome)
            self._forget(issued_at_ms(forgotten.request_id), request.timestamp_ms + AHEAD_MS)

    def _forget(self, issued_ms: int, latest_ms: int) -> None:
        """Raise the floor above a request.  One that was issued after `latest_ms` has a clock that was ahead."""
        if self.ahead_ms is None:
            self.floor_ms = max(self.floor_ms, min(issued_ms, latest_ms) + 1)
        elif issued_ms <= latest_ms:
            self.floor_ms = max(self.floor_ms, issued_ms + 1)
        else:
            self.ahead_ms = max(self.ahead_ms, issued_ms + 1)

    def _exceeds_a_limit(self, now_ms: int) -> bool:
        limits = self._limits
        if len(self._applied) > limits.max_requests or self._outcome_bytes > limits.max_outcome_bytes:
            return True
        oldest = next(iter(self._applied.values()))
        return self.ahead_ms is None and now_ms - oldest.timestamp_ms > limits.max_age_ms
