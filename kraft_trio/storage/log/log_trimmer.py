"""Deletes what the log no longer needs: old segments and old snapshots (KIP-630, "When to Delete Snapshots")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import trio

from kraft_trio.errors import CorruptLogError, KraftError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.failures import is_disk_full
from kraft_trio.storage.log.durability import Durability
from kraft_trio.storage.log.log_state import LogState
from kraft_trio.storage.log.log_watcher import LogWatcher
from kraft_trio.storage.segments.leader_epoch_checkpoint import write_leader_epochs
from kraft_trio.storage.segments.retention import RetentionLimits, SealedSegment, plan_retention
from kraft_trio.storage.segments.segments import Segments
from kraft_trio.storage.snapshots.snapshots import SnapshotFile, Snapshots

log = get_logger(__name__)

Spared = Callable[[], Collection[OffsetAndEpoch]]
"""Returns the snapshots that replicas are fetching now.  Called before each step of a trim."""


class LogTrimmer:
    """Deletes segments and snapshots one at a time while other tasks use the log.  Owned by its `Log`."""

    def __init__(
        self,
        segments: Segments,
        snapshots: Snapshots,
        state: LogState,
        durability: Durability,
        watchers: Sequence[LogWatcher],
        now_ms: Callable[[], int],
    ) -> None:
        self._segments = segments
        self._snapshots = snapshots
        self._state = state
        self._durability = durability
        self._watchers = watchers
        self._now_ms = now_ms
        self.start_moved = trio.lowlevel.ParkingLot()
        self.lock = trio.Lock()

    async def trim(self, limits: RetentionLimits, spared: Spared) -> bool:
        """See `Log.trim`."""
        async with self.lock:
            has_dropped = False
            while (drop := self._next_drop(limits, spared())) is not None:
                await self._drop(drop)
                has_dropped = True
                await trio.lowlevel.checkpoint_if_cancelled()
            if has_dropped:
                segments = self._segments
                try:
                    segments.retired += self._snapshots.retire_below(segments.start_offset)
                    # A trim must be able to make room on a full disk.
                    write_leader_epochs(segments.disk, segments.directory, self._state.epochs, may_skip=is_disk_full)
                except OSError as error:
                    raise self._durability.poison(error) from error
            return has_dropped

    def _next_drop(
        self, limits: RetentionLimits, spared: Collection[OffsetAndEpoch]
    ) -> SealedSegment | SnapshotFile | None:
        """Decide again after each wait: appends, new snapshots and new downloads change the plan."""
        self._durability.check_usable()
        try:
            files = self._snapshots.files()
        except (OSError, CorruptLogError) as error:
            raise self._durability.read_failure(error) from error
        segments = self._segments
        plan = plan_retention(files, segments.sealed(), segments.active.size, limits, self._now_ms(), spared)
        return plan[0] if plan else None

    async def _drop(self, drop: SealedSegment | SnapshotFile) -> None:
        if isinstance(drop, SnapshotFile):
            # Forget it first: during the rename nobody may open it.
            self._snapshots.forget(drop.snapshot_id)
            await self._retire(self._snapshots.path(drop.snapshot_id))
            return
        oldest = self._snapshots.oldest
        assert oldest is not None, f"{drop} is covered by nothing"
        assert drop.next_offset <= oldest.offset, f"{drop} is not covered by {oldest}"
        # The segment's file stays open: until it is forgotten it can be read under either name.
        await self._retire(self._segments.oldest.file.path)
        # The log may have been closed during the rename.  The next open finds the segment gone.
        self._durability.check_usable()
        try:
            self._state.trim_to(drop.next_offset, self._segments)
            self._segments.forget_oldest()
        except (OSError, KraftError) as error:
            raise self._durability.poison(error) from error
        if self.start_moved:
            self.start_moved.unpark_all()
        for watcher in self._watchers:
            watcher.trimmed(drop.next_offset)

    async def _retire(self, path: str) -> None:
        """Rename a file off the event loop: a directory fsync takes tens of milliseconds on a busy device."""
        retired = path + partition_files.DELETED
        try:
            await self._segments.disk.move(path, retired)
        except OSError as error:
            raise self._durability.poison(error) from error
        self._segments.retired.append(retired)

    async def remove_retired(self) -> None:
        """See `Log.remove_retired`."""
        while self._segments.retired:
            path = self._segments.retired.pop()
            try:
                await self._segments.disk.remove_aside(path)
            except OSError as error:
                log.warning("cannot remove a file that is no longer needed", file=path, reason=str(error))

    def replace_log(self, snapshot_id: OffsetAndEpoch) -> None:
        """Remove every record; see `Log.truncate_fully_to`.  Raises StorageFailure."""
        trimmer = self.lock.statistics().owner
        assert trimmer is None or trimmer is trio.lowlevel.current_task(), "truncated fully while a trim is under way"
        assert snapshot_id == self._snapshots.newest, f"snapshot {snapshot_id}, the newest is {self._snapshots.newest}"
        segments = self._segments
        try:
            self._durability.begin_replacement(snapshot_id.offset)
            segments.replace_all(snapshot_id.offset)
            self._durability.end_replacement()
            write_leader_epochs(segments.disk, segments.directory, ())
            self._state.install_snapshot(self._snapshots)
            segments.retired += self._snapshots.retire_below(snapshot_id.offset)
        except (OSError, KraftError) as error:
            raise self._durability.poison(error) from error
