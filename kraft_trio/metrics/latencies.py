"""Measurements that must be taken as things happen: elections from published views, commits from the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import trio

from kraft_trio.messages import QuorumView
from kraft_trio.metrics.window import Window
from kraft_trio.protocol.roles import Candidate, Leader, Prospective
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.segments.log_append import PlannedBatch

SYNC_SAMPLES: Final = 512
"""The newest syncs, of which the 99th percentile is taken."""
MAX_WAITING: Final = 4096
"""Limit for uncommitted appends that are timed at once; newer ones beyond it are not."""


class ElectionTimes:
    """Times elections: from becoming prospective (or a candidate without a pre-vote) to a leader of a newer epoch."""

    def __init__(self, view: QuorumView) -> None:
        self.latencies_ms = Window(trio.current_time())
        self._began: tuple[float, int] | None = None
        self.published(view)

    def published(self, view: QuorumView) -> None:
        """Called with each view of the quorum that the node publishes."""
        if self._began is None:
            if isinstance(view.role, Prospective | Candidate):
                # A pre-vote does not raise the epoch; a candidate is already in the epoch that it may win.
                self._began = trio.current_time(), view.epoch - isinstance(view.role, Candidate)
        elif view.leader_id is not None:
            (began_s, epoch), self._began = self._began, None
            if view.epoch > epoch:
                now_s = trio.current_time()
                self.latencies_ms.add((now_s - began_s) * 1000, now_s)


class RecordTimes:
    """A LogWatcher on the path of every append: counts records and trims, and times syncs and a leader's batches."""

    def __init__(self, *, leads: bool) -> None:
        now_s = trio.current_time()
        self.fetched = Window(now_s)
        self.appended_as_leader = Window(now_s)
        self.latencies_ms = Window(now_s)
        self.trims = 0
        """How often the start of the log has moved up."""
        self._unsynced_since_s: float | None = None
        self._syncs_ms: deque[float] = deque(maxlen=SYNC_SAMPLES)
        self._leads = leads
        self._waiting: deque[tuple[int, float]] = deque()
        """The exclusive ends of uncommitted batches, ascending, with the times of their appends."""

    def published(self, view: QuorumView) -> None:
        """Called with each view of the quorum that the node publishes."""
        self._leads = isinstance(view.role, Leader)
        if not self._leads:
            self._waiting.clear()

    def sync_p99_ms(self) -> float | None:
        """The 99th percentile of the times from the first write after a sync to the end of the next one.

        None if nothing has been synced.
        """
        ordered = sorted(self._syncs_ms)
        return ordered[len(ordered) * 99 // 100] if ordered else None

    # LogWatcher

    def appended(self, buffer: Buffer, batches: Sequence[PlannedBatch], path: str, position: int) -> None:
        now_s = trio.current_time()
        if self._unsynced_since_s is None:
            self._unsynced_since_s = now_s
        next_offset = batches[-1].last_offset + 1
        records = next_offset - batches[0].base_offset
        if not self._leads:
            self.fetched.add(records, now_s)
            return
        self.appended_as_leader.add(records, now_s)
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((next_offset, now_s))

    def truncated(self, end_offset: int) -> None:
        """Nothing to do: only leaders are timed, and a leader never truncates."""

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None:
        """Nothing to do: a leader never loads a snapshot."""

    def trimmed(self, log_start_offset: int) -> None:
        self.trims += 1

    def synced(self, end_offset: int) -> None:
        if self._unsynced_since_s is not None:
            self._syncs_ms.append((trio.current_time() - self._unsynced_since_s) * 1000)
            self._unsynced_since_s = None

    def high_watermark_advanced(self, old: int | None, new: int) -> None:
        waiting = self._waiting
        if not waiting or waiting[0][0] > new:
            return
        now_s = trio.current_time()
        while waiting and waiting[0][0] <= new:
            self.latencies_ms.add((now_s - waiting.popleft()[1]) * 1000, now_s)
