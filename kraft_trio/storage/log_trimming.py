"""A log that does not begin at offset 0: its snapshots, and what it lets go of (KIP-630 "When to Delete")."""

from __future__ import annotations

from collections.abc import Callable, Collection

import structlog
import trio

from kraft_trio.errors import KraftError
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.snapshot_ids import next_snapshot_id
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.storage import partition_files
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.failures import is_disk_full
from kraft_trio.storage.leader_epoch_checkpoint import encode_leader_epochs
from kraft_trio.storage.log_recovery import LoadedLog, retire_snapshots_below
from kraft_trio.storage.log_syncing import SyncedLog
from kraft_trio.storage.producer_replay import replay_producers
from kraft_trio.storage.retention import RetentionLimits, SealedSegment, plan_retention
from kraft_trio.storage.snapshots import SnapshotFile

log = structlog.get_logger(__name__)

Spared = Callable[[], Collection[OffsetAndEpoch]]
"""The snapshots that somebody is reading now: asked before each step of a trim."""


class TrimmedLog(SyncedLog):
    """The part of `Log` that knows of snapshots, and that lets go of what they cover."""

    def __init__(self, disk: Disk, directory: str, loaded: LoadedLog, now_ms: Callable[[], int]) -> None:
        super().__init__(disk, directory, loaded)
        self._now_ms = now_ms
        self.voters: VoterHistory = loaded.voters
        self.producers: ProducerStates = loaded.producers
        self._producer_history = loaded.producer_history
        self.start_moved = trio.lowlevel.ParkingLot()
        """Its waiters are woken when a trim has moved `log_start_offset`."""
        self.trimming = trio.Lock()
        """Held by a trim, which waits for the device between its steps.

        Whoever lets the whole log give way to a snapshot takes it first: a segment that is being dropped from the front
        would else come back, after a crash, beside the new one.  Appends, truncations and rolls need it not: they
        change what no snapshot covers, and a trim nothing but that.
        """

    def next_snapshot_id(self, end_offset: int) -> OffsetAndEpoch | None:
        """The id of a snapshot of everything before `end_offset` (exclusive); None where there is one as new.

        Raises ValueError for an offset above the high watermark, inside a batch or outside the log: see
        `protocol.snapshot_ids`.
        """
        return next_snapshot_id(
            end_offset,
            high_watermark=self._high_watermark,
            batch_base_offset=self.batch_base_offset(end_offset),
            epochs=self.epochs,
            newest=self.snapshots.newest_fit,
        )

    def add_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """A snapshot of this log is in its directory, whole and durable: written here, or fetched from the leader.

        One that ends below the log's start, which a newer one has moved meanwhile, is dropped at once.  Raises
        StorageFailure.
        """
        self._check_usable()
        self.snapshots.add(snapshot_id)
        try:
            retire_snapshots_below(self._segments, self.snapshots)
        except OSError as error:
            raise self._poison(error) from error

    # Trimming

    async def trim(self, limits: RetentionLimits, spared: Spared = frozenset) -> bool:
        """Drop old segments and old snapshots until the files are within the limits, as far as that may be.

        Segments go that the oldest snapshot covers, so that the log never begins above where a snapshot ends; one
        snapshot stays.  What is dropped gets another name, durably and one at a time, and `remove_retired` removes it;
        others run while the device works.  Of the snapshots that `spared` names and of the log behind them
        `plan_retention` says how long they stay.  Returns whether anything was dropped.

        A cancelled trim ends with the step under way.  Raises CorruptSnapshotError, having dropped nothing, where the
        newest snapshot does not even begin as one; StorageFailure.
        """
        async with self.trimming:
            has_dropped = False
            while (drop := self._next_to_go(limits, spared())) is not None:
                await self._drop(drop)
                has_dropped = True
                await trio.lowlevel.checkpoint_if_cancelled()
            if has_dropped:
                try:
                    retire_snapshots_below(self._segments, self.snapshots)
                    self._write_epoch_checkpoint_if_room()
                except OSError as error:
                    raise self._poison(error) from error
            return has_dropped

    def _next_to_go(
        self, limits: RetentionLimits, spared: Collection[OffsetAndEpoch]
    ) -> SealedSegment | SnapshotFile | None:
        """Decided anew after each wait, with what has been appended, saved and asked for meanwhile."""
        self._check_usable()
        with self._reading():
            files = self.snapshots.files()
        segments = self._segments
        plan = plan_retention(files, segments.sealed(), segments.active.size, limits, self._now_ms(), spared)
        return plan[0] if plan else None

    async def _drop(self, drop: SealedSegment | SnapshotFile) -> None:
        if isinstance(drop, SnapshotFile):
            # Nobody is to open it any more once its name may be another.
            self.snapshots.forget(drop.snapshot_id)
            await self._move_away(self.snapshots.path(drop.snapshot_id))
            return
        oldest = self.snapshots.oldest
        assert oldest is not None, f"{drop} is covered by nothing"
        assert drop.next_offset <= oldest.offset, f"{drop} is not covered by {oldest}"
        # It is open, and read under its new name like under the old one until it is forgotten.
        await self._move_away(self._segments.oldest.file.path)
        self._check_usable()  # it may have been closed meanwhile; the next open finds the segment gone
        try:
            self._keep_producers_from(drop.next_offset)
            self._segments.forget_oldest()
        except (OSError, KraftError) as error:
            raise self._poison(error) from error
        if drop.next_offset == self._end_offset:
            self.epochs.clear()  # no record is left: the newest snapshot has the epoch, as when the log is opened
        else:
            self.epochs.truncate_from_start(drop.next_offset)
        self.voters.trim_prefix_to(drop.next_offset)
        if self.start_moved:
            self.start_moved.unpark_all()
        if self.watcher is not None:
            self.watcher.trimmed(drop.next_offset)

    def _keep_producers_from(self, offset: int) -> None:
        """The log is about to begin at `offset`, which is committed: nothing below it is to be replayed any more."""
        history = self._producer_history
        if history.start_offset < offset:
            from_offset, producers = history.newest_until(offset)
            if len(self.producers):
                replay_producers(self._segments, producers, from_offset, offset)
            history.advance_start(offset, producers)

    async def _move_away(self, path: str) -> None:
        """Off the event loop: the fsync of a directory takes tens of milliseconds where others write beside it."""
        retired = path + partition_files.DELETED
        try:
            await self._disk.move(path, retired)
        except OSError as error:
            raise self._poison(error) from error
        self._segments.retired.append(retired)

    async def remove_retired(self) -> None:
        """Remove the files that were dropped; what cannot be removed the next open removes.  Shielded."""
        while self._segments.retired:
            path = self._segments.retired.pop()
            try:
                await self._disk.remove_aside(path)
            except OSError as error:
                log.warning("cannot remove a file that is no longer needed", file=path, reason=str(error))

    # The leader epochs' file, which derives from the log

    def _write_epoch_checkpoint_if_room(self) -> None:
        """A full disk must be left to make room: the next open makes the file anew."""
        try:
            self._write_epoch_checkpoint(self.epochs)
        except OSError as error:
            if not is_disk_full(error):
                raise
            log.warning("leader epochs not written", directory=self._directory, reason=str(error))

    def _write_epoch_checkpoint(self, entries: EpochCache) -> None:
        path = join(self._directory, partition_files.LEADER_EPOCH_CHECKPOINT)
        self._disk.replace_now(path, encode_leader_epochs(entries), durable=False)
