"""Who is told of what a log does, in the step that does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk import Buffer
from kraft_trio.storage.log_append import PlannedBatch


class LogWatcher(Protocol):
    """Is told of each change in the step that makes it, after it is made; must neither block nor fail.

    Offsets are exclusive ends but for those in a PlannedBatch.
    """

    def appended(self, buffer: Buffer, batches: Sequence[PlannedBatch], path: str, position: int) -> None:
        """The batches in `buffer` now stand one after the other in that file, from `position` on."""

    def truncated(self, end_offset: int) -> None: ...

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None:
        """The whole log gave way to that snapshot: it has no record, and begins and ends where the snapshot ends."""

    def trimmed(self, log_start_offset: int) -> None:
        """The log now begins there (inclusive)."""

    def synced(self, end_offset: int) -> None: ...

    def high_watermark_advanced(self, old: int | None, new: int) -> None: ...
