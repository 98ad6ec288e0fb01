"""How far a log is durable, and its first failure (docs/explanation/decisions.md#the-first-disk-error-is-final)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from kraft_trio.errors import (
    CorruptLogError,
    DamagedLogError,
    DiskFullError,
    KraftError,
    NodeClosedError,
    StorageFailure,
)
from kraft_trio.logs import get_logger
from kraft_trio.storage.checks.quarantine import WHAT_TO_DO, note_damage
from kraft_trio.storage.disk.disk_reserve import DiskReserve
from kraft_trio.storage.disk.failures import disk_full_error, is_disk_full, storage_failure
from kraft_trio.storage.disk.syncs_in_place import SyncsInPlace
from kraft_trio.storage.log.committed_news import CommittedNews
from kraft_trio.storage.log.log_watcher import LogWatcher
from kraft_trio.storage.segments.recovery_point import RecoveryPoint
from kraft_trio.storage.segments.segments import Segments

log = get_logger(__name__)


@attrs.define(eq=False)
class _SyncInProgress:
    end_offset: int
    """The end (exclusive) that will be durable when the fsync returns.  A truncation in the meantime lowers it."""


class Durability:
    """The synced end of a log, and whether the log can still be trusted.  Owned by its `Log`."""

    def __init__(
        self,
        segments: Segments,
        recovery_point: RecoveryPoint,
        reserve: DiskReserve | None,
        watchers: Sequence[LogWatcher],
        in_place: SyncsInPlace | None = None,
    ) -> None:
        """Opening has synced all segments."""
        self._in_place = in_place
        self._segments = segments
        self._reserve = reserve
        self._watchers = watchers
        self._syncs: list[_SyncInProgress] = []
        self._full: DiskFullError | None = None
        """The shortage that ended appending, although the log is intact."""
        self.recovery_point = recovery_point
        self.synced_end_offset = segments.end_offset
        """Everything before it (exclusive) is durable on this replica.  Never too high."""
        self.truncations = 0
        """The number of truncations since the log was opened."""
        self.synced_truncations = 0
        """The number of those that are durable."""
        self.poisoned: BaseException | None = None
        """The first failure of a write or fsync."""
        self.is_closed = False
        self.changed = trio.lowlevel.ParkingLot()
        self.high_watermark_moved = trio.lowlevel.ParkingLot()
        self.committed_news = CommittedNews(self._write_recovery_point)

    async def sync(self, *, may_block: bool = False) -> int:
        """See `Log.sync`."""
        self.check_usable()
        end_offset = self._segments.end_offset
        if self.synced_end_offset == end_offset and self.truncations == self.synced_truncations:
            await trio.lowlevel.checkpoint()
            return self.synced_end_offset
        # Each older segment was synced when it was sealed, so only the active one needs a sync.
        sync = _SyncInProgress(end_offset)
        truncations = self.truncations
        file = self._segments.active.file
        self._syncs.append(sync)
        try:
            if may_block and self._in_place is not None and self._in_place.is_fast():
                file.sync_now()
            else:
                await file.sync()
            if self._in_place is not None:
                self._in_place.note(file.last_sync_ns)
        except OSError as error:
            raise self.poison(error) from error
        finally:
            self._syncs.remove(sync)
        # During the wait the log may have been appended to, truncated, rolled, poisoned or closed.
        if self.poisoned is not None:
            raise self._failure(self.poisoned)
        self.synced_truncations = max(self.synced_truncations, truncations)
        try:
            self._advance_synced_end(sync.end_offset)
            if not self.is_closed and self.recovery_point.must_sync(now_s := trio.current_time()):
                self._write_recovery_point()
                if self.poisoned is None:
                    await self.recovery_point.sync(now_s)
        except OSError as error:
            raise self.poison(error) from error
        if self.poisoned is not None:
            raise self._failure(self.poisoned) from self.poisoned
        await trio.lowlevel.checkpoint_if_cancelled()
        return sync.end_offset

    def sync_now(self) -> None:
        """Like `sync`, but block the event loop.  Raises StorageFailure."""
        try:
            self._segments.active.file.sync_now()
            self.synced_truncations = self.truncations
            self._advance_synced_end(self._segments.end_offset)
        except OSError as error:
            raise self.poison(error) from error

    async def sync_all(self) -> None:
        """Like `sync`, but also cover what other tasks do during the wait.  Shielded."""
        with trio.CancelScope(shield=True):
            await self.sync()
        if self.synced_end_offset < self._segments.end_offset or self.truncations != self.synced_truncations:
            self.sync_now()

    def _advance_synced_end(self, offset: int) -> None:
        if offset > self.synced_end_offset:
            self.recovery_point.advance(offset)
            self._note_recovery_point()
            self.synced_end_offset = offset
            for watcher in self._watchers:
                watcher.synced(offset)
            self.wake_for_append()

    def note_high_watermark(self, offset: int) -> None:
        """Note in the recovery point that everything before `offset` (exclusive) is committed.

        It goes to the file after the next sync; without one if the log ends there, because that sync may be far.
        Raises StorageFailure.
        """
        if self.is_closed or self.poisoned is not None:
            return
        ends_there = offset == self._segments.end_offset
        self.recovery_point.note_high_watermark(offset, waits_for_sync=not ends_there)
        if ends_there:
            self._note_recovery_point()

    def _note_recovery_point(self) -> None:
        """Write it now, or when the news that are held back are given.  Raises StorageFailure if that fails now."""
        self.committed_news.note()
        if self.poisoned is not None:
            raise self._failure(self.poisoned) from self.poisoned

    def _write_recovery_point(self) -> None:
        if self.is_closed or self.poisoned is not None:
            return
        try:
            self.recovery_point.write()
        except OSError as error:
            if is_disk_full(error):
                # It tells too little until the next write.  To write over something takes room on Btrfs and ZFS.
                self._run_out_of_room(f"{self._segments.directory}: the recovery point cannot be written", error)
            else:
                self.poison(error)

    # Truncation and replacement

    def begin_truncation(self, offset: int) -> None:
        """Stop counting anything from `offset` on as durable, before the log is cut there.  Raises OSError."""
        self.synced_end_offset = min(self.synced_end_offset, offset)
        self._limit_syncs_to(offset)
        self.truncations += 1
        self.recovery_point.go_back(offset)

    def begin_replacement(self, snapshot_end_offset: int) -> None:
        """Prepare for a snapshot that replaces the whole log.  Raises OSError."""
        self._limit_syncs_to(snapshot_end_offset)
        self.recovery_point.go_back(self._segments.start_offset)

    def end_replacement(self) -> None:
        """The log is empty, and durable, at the end of the snapshot."""
        self.synced_end_offset = self._segments.end_offset
        self.synced_truncations = self.truncations

    def _limit_syncs_to(self, offset: int) -> None:
        for sync in self._syncs:
            sync.end_offset = min(sync.end_offset, offset)

    # Whether the log can be used

    def check_open(self) -> None:
        """Raise NodeClosedError if the log is closed."""
        if self.is_closed:
            raise NodeClosedError(f"{self._segments.directory}: the log is closed")

    def check_usable(self) -> None:
        """Raise StorageFailure if the log is poisoned, NodeClosedError if it is closed."""
        if self.poisoned is not None:
            raise self._failure(self.poisoned)
        if self.is_closed:
            self.check_open()

    def check_appendable(self) -> None:
        """Like `check_usable`; also raise DiskFullError after the disk was full."""
        self.check_usable()
        full = self._reserve.shortage if self._reserve is not None else self._full
        if full is not None:
            raise full

    def append_failure(self, error: OSError, size: int) -> StorageFailure:
        """Return the error to raise when an append of `size` bytes failed.

        If the disk is full, the log is restored to its state before the append.  Any other error poisons it.
        """
        if not is_disk_full(error):
            return self.poison(error)
        active = self._segments.active
        try:
            # The write may have stored some of the batches, whole.  They are not in the log.
            active.file.truncate(active.size)
        except OSError as second:
            return self.poison(second)
        return self._run_out_of_room(f"{active.file.path}: {size} bytes cannot be appended", error)

    def _run_out_of_room(self, what: str, error: OSError) -> DiskFullError:
        """Append nothing from now on, and release the reserve."""
        full = self._full = disk_full_error(what, error)
        if self._reserve is not None:
            self._reserve.release(full)
        return full

    def read_failure(self, error: OSError | CorruptLogError) -> KraftError:
        """Return the error to raise when a read failed.

        Damage ends a node, and makes its next start check the whole log.
        """
        if isinstance(error, OSError):
            return StorageFailure(f"{self._segments.directory}: cannot read the log: {error}")
        if self._reserve is None:
            return error
        damaged = DamagedLogError(f"{error}; {WHAT_TO_DO}")
        if self._reserve.failure is None:
            log.error("damage found by a read", directory=self._segments.directory, reason=str(error))
            note_damage(self._segments.disk, self._segments.directory, str(error))
        self._reserve.end(damaged)
        return damaged

    def poison(self, error: Exception) -> StorageFailure:
        """Make every append, truncation and sync fail from now on; return the error to raise.

        It names the first failure, whatever fails later.
        """
        if self.poisoned is None:
            self.poisoned = error
            log.error("storage poisoned", directory=self._segments.directory, reason=str(error))
            if self._reserve is not None:
                self._reserve.end(self._failure(error))
            self.wake()
        return self._failure(self.poisoned)

    def _failure(self, error: BaseException) -> StorageFailure:
        return storage_failure(
            f"{self._segments.directory}: a write or fsync failed, the log cannot be trusted any more", error
        )

    def wake(self) -> None:
        """Wake the tasks that wait for any change of the log."""
        self.wake_for_append()
        if self.high_watermark_moved:
            self.high_watermark_moved.unpark_all()
        self.committed_news.tell()

    def wake_for_append(self) -> None:
        """Wake the tasks for which a new end of the log matters."""
        if self.changed:
            self.changed.unpark_all()
