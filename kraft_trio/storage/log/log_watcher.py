"""The interface of observers of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.segments.log_append import PlannedBatch


class LogWatcher(Protocol):
    """The log calls it right after each change, in the same step.  It must neither block nor fail.

    Offsets are exclusive ends, except those in a PlannedBatch.
    """

    def appended(self, buffer: Buffer, batches: Sequence[PlannedBatch], path: str, position: int) -> None:
        """The batches in `buffer` were written to that file, at `position`."""

    def truncated(self, end_offset: int) -> None: ...

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None:
        """A snapshot replaced the whole log, which now starts and ends at the snapshot's end."""

    def trimmed(self, log_start_offset: int) -> None:
        """The log now starts at that offset (inclusive)."""

    def synced(self, end_offset: int) -> None: ...

    def high_watermark_advanced(self, old: int | None, new: int) -> None: ...
