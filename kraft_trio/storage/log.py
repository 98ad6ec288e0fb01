"""The log of the one partition: append, sync, truncate, read; and what its batches say, folded as they come (rule R2).

Three offsets, all exclusive: `end_offset` is where the next batch goes, `synced_end_offset` what this replica has made
durable, `high_watermark` what is known to be committed.  Only the second may be counted or promised
(docs/DECISIONS.md#only-synced-records-count).

Nothing here awaits between a check and what depends on it: append, truncate and read are synchronous, `sync` waits for
the device and afterwards trusts only what could not have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import attrs
import structlog
import trio

from kraft_trio.errors import DiskFullError, KraftError, StorageFailure
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.disk import Buffer, Disk
from kraft_trio.storage.disk_reserve import DiskReserve
from kraft_trio.storage.failures import disk_full_error, is_disk_full, is_out_of_descriptors, storage_failure
from kraft_trio.storage.known_good_point import (
    forget_known_good_points_above,
    load_producers,
    write_known_good_point,
)
from kraft_trio.storage.log_append import PlannedBatches, plan_follower_append, plan_leader_append
from kraft_trio.storage.log_recovery import (
    fold_control_record,
    install_voters,
    load_log,
    replace_segments,
    retire_snapshots_below,
)
from kraft_trio.storage.log_trimming import TrimmedLog
from kraft_trio.storage.producer_replay import replay_producers
from kraft_trio.storage.segment import MAX_RELATIVE_OFFSET

log = structlog.get_logger(__name__)


def _is_segment_size(_instance: object, _attribute: object, value: int) -> None:
    if not 1 <= value < 2**31:
        raise ValueError(f"segment_bytes: {value}, expected 1 to {2**31 - 1}: positions in an index are int32")


@attrs.frozen
class LogConfig:
    """Sizes in bytes, times in milliseconds."""

    segment_bytes: int = attrs.field(default=1024 * 1024 * 1024, validator=_is_segment_size)
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    max_batch_bytes: int = 8 * 1024 * 1024
    """The largest batch that the leader appends; a follower takes what its leader has."""


@attrs.frozen
class Appended:
    """Where an append went: the first offset, and the one after the last (exclusive)."""

    base_offset: int
    next_offset: int


class Log(TrimmedLog):
    """The durable, ordered batches of this replica; made by `open`, ended by `close`.

    One task at a time may append or truncate, the replication task of the current epoch; anyone may read, sync and
    wait.  The first OSError of a write or fsync poisons the log: `poisoned` is set, and append, truncate and sync raise
    StorageFailure from then on, also where the disk would seem to work again (scenario S12).

    An append for which there is no room is another thing: none of it is in the log, and all that was is as it was.  It
    raises DiskFullError, as every append from then on does; the log can be read, synced, truncated and closed.

    `changed` is where to wait: its waiters are woken when the end, the synced end or the high watermark has moved, and
    when the log is poisoned.  Those of `voters_changed` are woken when `voters` may say something else than before.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        topic_id: UUID,
        static_voters: VoterSet,
        config: LogConfig,
        now_ms: Callable[[], int],
        reserve: DiskReserve | None = None,
    ) -> None:
        """Use `open`."""
        loaded = load_log(disk, directory, topic_id, static_voters)
        super().__init__(disk, directory, loaded, now_ms)
        self._config = config
        self._reserve = reserve
        self._full: DiskFullError | None = None
        """Why nothing is appended any more, though nothing has failed."""
        self._active_since_ms = now_ms()
        """Since when this process appends to the active segment; timestamps in batches are the clients' word."""
        self.voters_changed = trio.lowlevel.ParkingLot()

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        topic_id: UUID,
        static_voters: VoterSet,
        config: LogConfig,
        now_ms: Callable[[], int],
        reserve: DiskReserve | None = None,
    ) -> Log:
        """Open the log in `directory`, or make it; blocks until everything in it is durable.

        `now_ms` is the wall clock in milliseconds since 1970; it decides only when a segment is old.  `reserve` is what
        to release when the disk is full.  Raises CorruptLogError for damage, StorageError for files that cannot be
        used, StorageFailure where the disk fails, DiskFullError where it is full.
        """
        try:
            return cls(
                disk,
                directory,
                topic_id=topic_id,
                static_voters=static_voters,
                config=config,
                now_ms=now_ms,
                reserve=reserve,
            )
        except OSError as error:
            raise storage_failure(f"{directory}: cannot open the log", error) from error

    @property
    def _latest_epoch(self) -> int:
        """That of the last record before the end, wherever it is."""
        return self.epochs.latest_epoch if len(self.epochs) else self.end.epoch

    # Appending

    def append_as_leader(self, batches: Buffer, leader_epoch: int) -> Appended:
        """Append whole batches, giving them the next offsets and the leader's epoch.

        Their CRCs are the caller's to check.  A bytearray is patched in place, anything else is copied.  Raises
        ProtocolError for bytes that are no whole batches, RecordTooLargeError for a batch above the configured limit,
        DiskFullError (nothing is appended in any of these cases), StorageFailure.
        """
        self._check_appendable()
        assert leader_epoch >= self._latest_epoch, f"epoch {leader_epoch} after {self._latest_epoch}"
        buffer = batches if isinstance(batches, bytearray) else bytearray(batches)
        plan = plan_leader_append(buffer, self._end_offset, leader_epoch, self._config.max_batch_bytes)
        return self._append(buffer, plan)

    def append_as_follower(self, batches: Buffer, max_epoch: int | None = None) -> Appended:
        """Append what a leader sent: whole batches with their offsets and epochs, perhaps with a cut one at the end.

        The cut one is left out.  Raises ProtocolError, appending nothing, where a CRC is wrong, the offsets do not
        continue this log, an epoch falls or, with `max_epoch`, is above that, DiskFullError likewise; StorageFailure.
        """
        self._check_appendable()
        plan = plan_follower_append(batches, self._end_offset, self._latest_epoch, max_epoch)
        if not plan.batches:
            return Appended(self._end_offset, self._end_offset)
        if plan.size < len(batches):
            batches = memoryview(batches)[: plan.size]
        return self._append(batches, plan)

    def _append(self, buffer: Buffer, plan: PlannedBatches) -> Appended:
        base_offset = self._end_offset
        try:
            if self._truncations != self._synced_truncations:
                # What was dropped must not come back behind what is written now.
                self._sync_now()
            if self._is_time_to_roll(plan):
                self._roll(plan)
            if plan.batches[-1].leader_epoch != self.epochs.latest_epoch:
                self._write_epochs_if_possible(self._epochs_after(plan))
            self._segments.append(buffer, plan.batches)
        except OSError as error:
            raise self._append_failure(error, plan.size) from error
        try:
            self._fold(plan)
        except Exception as error:
            # It is in the file, and memory says something else: no request's affair, whoever sent it.
            raise self._poison(error) from error
        if self.watcher is not None:
            active = self._segments.active
            self.watcher.appended(buffer, plan.batches, active.file.path, active.size - plan.size)
        self._wake()
        return Appended(base_offset, self._end_offset)

    def _check_appendable(self) -> None:
        self._check_usable()
        full = self._reserve.shortage if self._reserve is not None else self._full
        if full is not None:
            raise full

    def _append_failure(self, error: OSError, size: int) -> StorageFailure:
        """A write failed, which was no fsync: for want of room alone the log is as it was before."""
        if not is_disk_full(error):
            return self._poison(error)
        active = self._segments.active
        try:
            # Of a write of several batches some may be there, whole; they are not in the log.
            active.file.truncate(active.size)
        except OSError as second:
            return self._poison(second)
        self._full = disk_full_error(f"{active.file.path}: {size} bytes cannot be appended", error)
        if self._reserve is not None:
            self._reserve.release(self._full)
        return self._full

    def _fold(self, plan: PlannedBatches) -> None:
        """Take what the batches say into memory, in the step that appended them (rule R2)."""
        for batch in plan.batches:
            self.epochs.append(batch.leader_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                self.producers.record(
                    batch.producer_id,
                    batch.producer_epoch,
                    batch.base_sequence,
                    batch.base_offset,
                    batch.last_offset,
                    batch.max_timestamp_ms,
                )
        for offset, record in plan.control_records:
            fold_control_record(self.voters, offset, record)
        if plan.control_records and self.voters_changed:
            self.voters_changed.unpark_all()
        self._end_offset = plan.batches[-1].last_offset + 1
        self._producer_history.grow(plan.size, self._end_offset, self.producers, self._high_watermark)

    def _is_time_to_roll(self, plan: PlannedBatches) -> bool:
        active = self._segments.active
        size = active.size
        if not size:
            return False
        return (
            size + plan.size > self._config.segment_bytes
            or self._now_ms() - self._active_since_ms >= self._config.segment_ms
            or plan.batches[-1].last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def _roll(self, plan: PlannedBatches) -> None:
        """Begin a new segment.  Blocks until the old one is durable: only a last segment may have a torn tail.

        While no file can be opened the old one grows on.
        """
        self._sync_now()
        try:
            self._segments.roll()
            self._active_since_ms = self._now_ms()
            write_known_good_point(self._disk, self._directory, self._end_offset, self.producers)
        except OSError as error:
            is_too_long = plan.batches[-1].last_offset - self._segments.active.base_offset > MAX_RELATIVE_OFFSET
            if not is_out_of_descriptors(error) or is_too_long:
                raise
            log.warning("no file can be opened: the segment grows on", directory=self._directory, reason=str(error))

    def _write_epochs_if_possible(self, entries: EpochCache) -> None:
        """Without a descriptor the file stays as it is: the batches say the same, and the next open makes it anew."""
        try:
            self._write_epoch_checkpoint(entries)
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
            log.warning("leader epochs not written", directory=self._directory, reason=str(error))

    def _epochs_after(self, plan: PlannedBatches) -> EpochCache:
        entries = EpochCache(self.epochs)
        for batch in plan.batches:
            entries.append(batch.leader_epoch, batch.base_offset)
        return entries

    # Truncating

    def truncate_to(self, offset: int) -> None:
        """Drop every record at or above `offset`, which must be where a batch begins, or the end; durable after a sync.

        Folds epochs, voters and producers back.  An offset below the high watermark is a bug and raises AssertionError
        (invariant HighWatermarkNeverFalls).  Raises ValueError, changing nothing, for an offset inside a batch or
        outside the log; StorageFailure.
        """
        self._check_usable()
        assert self._high_watermark is None or offset >= self._high_watermark, (
            f"truncation to offset {offset}, below the high watermark {self._high_watermark}"
        )
        if offset == self._end_offset:
            return
        if not self.log_start_offset <= offset < self._end_offset:
            raise ValueError(
                f"truncation to offset {offset}: the log has offsets {self.log_start_offset} to {self._end_offset}"
            )
        with self._reading():
            segment, position, base_offset = self._segments.batch_of(offset)
        if base_offset != offset:
            raise ValueError(f"truncation to offset {offset}: inside the batch that begins at offset {base_offset}")
        # Whatever happens from here on, nothing above the offset counts as durable any more.
        self._synced_end_offset = min(self._synced_end_offset, offset)
        for under_way in self._syncs:
            under_way.end_offset = min(under_way.end_offset, offset)
        self._truncations += 1
        try:
            self._recovery_point.go_back(offset)
            forget_known_good_points_above(self._disk, self._directory, offset)
            self._segments.truncate(segment, position, offset)
            self._end_offset = offset
            self.epochs.truncate_from_end(offset)
            if self.voters.truncate_to(offset) and self.voters_changed:
                self.voters_changed.unpark_all()
            self._truncate_producers_to(offset)
        except (OSError, KraftError) as error:
            raise self._poison(error) from error
        if self.watcher is not None:
            self.watcher.truncated(offset)
        self._wake()

    def _truncate_producers_to(self, offset: int) -> None:
        if not len(self.producers):
            # The log never had any.
            self._producer_history.go_back(offset)
            return
        from_offset, self.producers = self._producer_history.go_back(offset)
        size = replay_producers(self._segments, self.producers, from_offset, offset)
        self._producer_history.grow(size, offset, self.producers, self._high_watermark)

    def truncate_fully_to(self, snapshot_id: OffsetAndEpoch) -> None:
        """Drop every record: the log begins, and ends, where that snapshot of its directory ends; durable on return.

        Voters, kraft.version, epochs and producers are those of the snapshot and nothing earlier is kept (scenario
        S11); the high watermark is its end.  `trimming` is held by the caller, or by nobody: no trim may be under way.
        That, a snapshot that ends below the high watermark and one that is not the newest are bugs and raise
        AssertionError.  Blocks for fsyncs.  Raises StorageFailure.
        """
        self._check_usable()
        trimmer = self.trimming.statistics().owner
        assert trimmer is None or trimmer is trio.lowlevel.current_task(), "truncated fully while a trim is under way"
        assert snapshot_id == self.snapshots.newest, f"snapshot {snapshot_id}, the newest is {self.snapshots.newest}"
        offset = snapshot_id.offset
        assert self._high_watermark is None or offset >= self._high_watermark, (
            f"snapshot {snapshot_id} ends below the high watermark {self._high_watermark}"
        )
        # Until a sync that is under way has ended, and it can only say less than is true.
        for under_way in self._syncs:
            under_way.end_offset = min(under_way.end_offset, offset)
        try:
            self._recovery_point.go_back(self.log_start_offset)
            replace_segments(self._disk, self._directory, self._segments, snapshot_id)
            self._end_offset = self._synced_end_offset = offset
            self._synced_truncations = self._truncations
            self._active_since_ms = self._now_ms()
            self.epochs.clear()
            self._write_epoch_checkpoint(self.epochs)
            install_voters(self.voters, self.snapshots)
            self.producers.clear()
            load_producers(self.snapshots, offset, self.producers)
            self._producer_history.begin_at(offset, self.producers)
            retire_snapshots_below(self._segments, self.snapshots)
        except (OSError, KraftError) as error:
            raise self._poison(error) from error
        if self.voters_changed:
            self.voters_changed.unpark_all()
        if self.watcher is not None:
            self.watcher.replaced(snapshot_id)
        self._wake()
        self.advance_high_watermark(offset)

    # Ending, well or not

    async def close(self) -> None:
        """Sync, note that the whole log is known to be good, and release its files.  Shielded, as `sync` is.

        A poisoned log is released and nothing else.  Closing twice does nothing.  Raises StorageFailure.
        """
        if self._closed:
            return
        try:
            if self.poisoned is None:
                with trio.CancelScope(shield=True):
                    await self.sync()
                # What was appended during that wait must not be vouched for unsynced.
                if self._synced_end_offset < self._end_offset or self._truncations != self._synced_truncations:
                    self._sync_now()
                self._note_clean_end()
        except OSError as error:
            raise self._poison(error) from error
        finally:
            self._closed = True
            try:
                self._segments.close()
            finally:
                self._recovery_point.close()
            self._wake()

    def _note_clean_end(self) -> None:
        """All is synced.  On a full disk the recovery point, which is there, says so too: the next open reads more."""
        try:
            self._segments.write_indexes()
            write_known_good_point(self._disk, self._directory, self._end_offset, self.producers)
        except OSError as error:
            if not is_disk_full(error):
                raise
            log.warning("closed without a known good point", directory=self._directory, reason=str(error))
        else:
            self._recovery_point.remove()
