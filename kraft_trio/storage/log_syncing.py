"""How far a log is durable and committed; its first failure (docs/DECISIONS.md#the-first-disk-error-is-final)."""

from __future__ import annotations

import attrs
import structlog
import trio

from kraft_trio.errors import CorruptLogError, DamagedLogError, StorageFailure
from kraft_trio.storage.disk import Disk
from kraft_trio.storage.disk_reserve import DiskReserve
from kraft_trio.storage.failures import storage_failure
from kraft_trio.storage.log_reading import ReadableLog
from kraft_trio.storage.log_recovery import LoadedLog
from kraft_trio.storage.log_watcher import BothWatchers, LogWatcher
from kraft_trio.storage.quarantine import WHAT_TO_DO, note_damage

log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class _SyncUnderWay:
    end_offset: int
    """What will be durable when it ends (exclusive); lowered by a truncation made meanwhile."""


class SyncedLog(ReadableLog):
    """The half of `Log` that waits for the device, and that fails once and for all."""

    def __init__(self, disk: Disk, directory: str, loaded: LoadedLog) -> None:
        super().__init__(directory, loaded.segments, loaded.segments.end_offset, loaded.epochs, loaded.snapshots)
        self._disk = disk
        self._synced_end_offset = self._end_offset
        newest = self.snapshots.newest
        self._high_watermark = None if newest is None else newest.offset
        """At open, what is in a snapshot is known to be committed, and nothing else is."""
        self._truncations = 0
        """How many there were; and how many of them are durable."""
        self._synced_truncations = 0
        self._syncs: list[_SyncUnderWay] = []
        self._reserve: DiskReserve | None = None
        self._recovery_point = loaded.recovery_point
        self.poisoned: BaseException | None = None
        self.changed = trio.lowlevel.ParkingLot()
        self.watcher: LogWatcher | None = None

    @property
    def synced_end_offset(self) -> int:
        """Everything before it (exclusive) is durable on this replica.  Never overstated."""
        return self._synced_end_offset

    @property
    def high_watermark(self) -> int | None:
        """Everything before it (exclusive) is known to be committed; None while that is not known."""
        return self._high_watermark

    def watch(self, watcher: LogWatcher) -> None:
        """From now on tell that one too; there is no way back, it lives as long as the log."""
        self.watcher = watcher if self.watcher is None else BothWatchers(self.watcher, watcher)

    # Syncing

    async def sync(self) -> int:
        """Make durable what was appended or truncated before the call; returns the end of it (exclusive).

        Always waits for the fsync to end; if its caller was cancelled meanwhile, raises Cancelled after having moved
        `synced_end_offset`.  Raises StorageFailure when the fsync fails, or when any write or fsync has failed.
        """
        self._check_usable()
        if self._synced_end_offset == self._end_offset and self._truncations == self._synced_truncations:
            await trio.lowlevel.checkpoint()
            return self._synced_end_offset
        # Older segments were synced when they were sealed, so the active one is all there is to sync.
        under_way = _SyncUnderWay(self._end_offset)
        truncations = self._truncations
        file = self._segments.active.file
        self._syncs.append(under_way)
        try:
            await file.sync()
        except OSError as error:
            raise self._poison(error) from error
        finally:
            self._syncs.remove(under_way)
        # The log may have been appended to, truncated, rolled, poisoned or closed meanwhile.
        if self.poisoned is not None:
            raise self._failure(self.poisoned)
        self._synced_truncations = max(self._synced_truncations, truncations)
        try:
            self._advance_synced_end(under_way.end_offset)
            if not self._closed:
                await self._recovery_point.sync_if_due(trio.current_time())
        except OSError as error:
            raise self._poison(error) from error
        if self.poisoned is not None:
            raise self._failure(self.poisoned)
        await trio.lowlevel.checkpoint_if_cancelled()
        return under_way.end_offset

    def _sync_now(self) -> None:
        """As `sync`, blocking.  Raises StorageFailure."""
        try:
            self._segments.active.file.sync_now()
            self._synced_truncations = self._truncations
            self._advance_synced_end(self._end_offset)
        except OSError as error:
            raise self._poison(error) from error

    def _advance_synced_end(self, offset: int) -> None:
        if offset > self._synced_end_offset:
            self._recovery_point.advance(offset)
            self._synced_end_offset = offset
            if self.watcher is not None:
                self.watcher.synced(offset)
            self._wake()

    # The high watermark

    def advance_high_watermark(self, offset: int) -> None:
        """Everything before `offset` (exclusive) is committed, as far as the log goes; a lower one changes nothing.

        An offset beyond the end of the log is a bug and raises AssertionError.
        """
        assert 0 <= offset <= self._end_offset, f"high watermark {offset}, the log ends at {self._end_offset}"
        known = self._high_watermark
        if known is None or offset > known:
            self._high_watermark = offset
            if self.watcher is not None:
                self.watcher.high_watermark_advanced(known, offset)
            self._wake()

    def _check_usable(self) -> None:
        if self.poisoned is not None:
            raise self._failure(self.poisoned)
        self._check_open()

    def _damaged(self, error: CorruptLogError) -> CorruptLogError:
        """Of a node's log: have the node end, and the next start look at all of it."""
        if self._reserve is None:
            return error
        damaged = DamagedLogError(f"{error}; {WHAT_TO_DO}")
        if self._reserve.failure is None:
            log.error("damage found by a read", directory=self._directory, reason=str(error))
            note_damage(self._disk, self._directory, str(error))
        self._reserve.end(damaged)
        return damaged

    def _poison(self, error: Exception) -> StorageFailure:
        """Fail from now on, with the first error for ever."""
        if self.poisoned is None:
            self.poisoned = error
            log.error("storage poisoned", directory=self._directory, reason=str(error))
            if self._reserve is not None:
                self._reserve.end(self._failure(error))
            self._wake()
        return self._failure(self.poisoned)

    def _failure(self, error: BaseException) -> StorageFailure:
        return storage_failure(f"{self._directory}: a write or fsync failed, the log cannot be trusted any more", error)

    def _wake(self) -> None:
        if self.changed:
            self.changed.unpark_all()
