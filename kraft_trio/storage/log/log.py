"""The log of the one partition.

Three offsets, all exclusive: `end_offset` is where the next batch goes, `synced_end_offset` is what this replica has
made durable, `high_watermark` is what is known to be committed.  Only synced records may be counted or promised
(docs/explanation/decisions.md#only-synced-records-count).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import trio

from kraft_trio.errors import CorruptLogError, KraftError, OffsetOutOfRangeError
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.reconciliation import FetchPositionCheck, Valid, check_fetch_position
from kraft_trio.protocol.snapshot_ids import next_snapshot_id
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import BatchHeader, iter_headers
from kraft_trio.storage.batches.record_chunks import first_record_since
from kraft_trio.storage.disk.disk import Buffer, Disk
from kraft_trio.storage.disk.disk_reserve import DiskReserve
from kraft_trio.storage.disk.failures import storage_failure
from kraft_trio.storage.disk.syncs_in_place import SyncsInPlace
from kraft_trio.storage.log.committed_news import CommittedNews
from kraft_trio.storage.log.durability import Durability
from kraft_trio.storage.log.log_appender import Appended, LogAppender, LogConfig
from kraft_trio.storage.log.log_recovery import LoadedLog, load_log
from kraft_trio.storage.log.log_trimmer import LogTrimmer, Spared
from kraft_trio.storage.log.log_watcher import LogWatcher
from kraft_trio.storage.segments.log_append import plan_follower_append, plan_leader_append
from kraft_trio.storage.segments.retention import RetentionLimits

_READ_CHUNK_BYTES = 1024 * 1024


class Log:
    """The durable, ordered batches of this replica.  Created by `open`, ended by `close`.

    Only one task at a time may append or truncate: the replication task of the current epoch.  Any task may read, sync
    and wait.  Append, truncate and read are synchronous, so nothing changes between their checks and their effects.

    The first OSError of a write or fsync poisons the log.  `poisoned` is set, and append, truncate and sync raise
    StorageFailure from then on, even if the disk seems to work again (scenario S12).

    An append without room on the disk leaves the log unchanged.  That append, and every later one, raises
    DiskFullError.  The log can still be read, synced, truncated and closed.
    """

    def __init__(
        self,
        loaded: LoadedLog,
        config: LogConfig,
        now_ms: Callable[[], int],
        reserve: DiskReserve | None,
        syncs_in_place: SyncsInPlace | None,
    ) -> None:
        """Use `open`."""
        self._max_batch_bytes = config.max_batch_bytes
        self._watchers: list[LogWatcher] = []
        self._segments = loaded.segments
        self._state = loaded.state
        self._durability = Durability(loaded.segments, loaded.recovery_point, reserve, self._watchers, syncs_in_place)
        self._appender = LogAppender(loaded.segments, loaded.state, self._durability, self._watchers, config, now_ms)
        self._trimmer = LogTrimmer(
            loaded.segments, loaded.snapshots, loaded.state, self._durability, self._watchers, now_ms
        )
        self.snapshots = loaded.snapshots
        newest = loaded.snapshots.newest
        self._high_watermark = None if newest is None else newest.offset

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
        syncs_in_place: SyncsInPlace | None = None,
    ) -> Log:
        """Open the log in `directory`, or create it.  Blocks until everything in it is durable.

        `now_ms` is the wall clock in milliseconds since 1970.  It only decides when segments and snapshots are old.
        `reserve` is released when the disk is full.  `syncs_in_place` decides about syncs that may block.  Raises
        CorruptLogError for damage, StorageError for unusable files, StorageFailure if the disk fails, DiskFullError if
        it is full.
        """
        try:
            loaded = load_log(disk, directory, topic_id, static_voters, config)
            return cls(loaded, config, now_ms, reserve, syncs_in_place)
        except OSError as error:
            raise storage_failure(f"{directory}: cannot open the log", error) from error

    @property
    def directory(self) -> str:
        return self._segments.directory

    @property
    def epochs(self) -> EpochCache:
        return self._state.epochs

    @property
    def voters(self) -> VoterHistory:
        return self._state.voters

    @property
    def voters_changed(self) -> trio.lowlevel.ParkingLot:
        """Wakes its waiters when `voters` may have changed."""
        return self._state.voters_changed

    @property
    def producer_count(self) -> int:
        """How many idempotent producers are remembered."""
        return self._state.producer_count

    @property
    def producers(self) -> ProducerStates:
        """The idempotent producers at the end of the log.  Raises StorageFailure if the log has to be read for them."""
        try:
            return self._state.producers
        except (OSError, CorruptLogError) as error:
            raise self._durability.poison(error) from error

    @property
    def log_start_offset(self) -> int:
        """The first offset in the log (inclusive).  If it is above 0, a snapshot ends there or later."""
        return self._segments.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record to be appended (exclusive end)."""
        return self._segments.end_offset

    @property
    def end(self) -> OffsetAndEpoch:
        """The end offset (exclusive), and the epoch of the last record before it; 0 if there never was a record.

        An empty log that starts at a snapshot's end has the snapshot's epoch.
        """
        epochs = self._state.epochs
        newest = self.snapshots.newest
        if not len(epochs) and newest is not None:
            return OffsetAndEpoch(self._segments.end_offset, newest.epoch)
        return OffsetAndEpoch(self._segments.end_offset, epochs.latest_epoch)

    @property
    def _latest_epoch(self) -> int:
        epochs = self._state.epochs
        return epochs.latest_epoch if len(epochs) else self.end.epoch

    @property
    def synced_end_offset(self) -> int:
        """Everything before it (exclusive) is durable on this replica.  Never too high."""
        return self._durability.synced_end_offset

    @property
    def high_watermark(self) -> int | None:
        """Everything before it (exclusive) is known to be committed.  None as long as nothing is known.

        After opening it is the end of the newest snapshot.
        """
        return self._high_watermark

    @property
    def once_committed(self) -> int:
        """Everything before it (exclusive) was known to be committed here, perhaps to an earlier process.

        May lag, and is 0 if nothing was known.  It falls only if such records are truncated all the same.
        """
        return max(self._durability.recovery_point.high_watermark or 0, self._high_watermark or 0)

    @property
    def size_in_bytes(self) -> int:
        return self._segments.size_in_bytes

    @property
    def poisoned(self) -> BaseException | None:
        """The first failure of a write or fsync."""
        return self._durability.poisoned

    @property
    def changed(self) -> trio.lowlevel.ParkingLot:
        """Wakes its waiters when the end, the synced end or the high watermark moves, and when the log is poisoned."""
        return self._durability.changed

    @property
    def high_watermark_moved(self) -> trio.lowlevel.ParkingLot:
        """Wakes its waiters when the high watermark moves, and when the log is truncated, replaced, poisoned or closed.

        Most of what waits for the log waits for this, and an append and its fsync need not wake it.
        """
        return self._durability.high_watermark_moved

    @property
    def committed_news(self) -> CommittedNews:
        """Tells the driver of the state machine when `high_watermark_moved` wakes its waiters."""
        return self._durability.committed_news

    def watch(self, watcher: LogWatcher) -> None:
        """Tell `watcher` of each change from now on.  Earlier watchers are told first."""
        self._watchers.append(watcher)

    # Reading: what is appended, synced or not

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes:
        """Return whole batches from the one that contains `offset`: as many as fit in `max_bytes`, but at least one.

        With `end_offset`, only batches that end at or below it (exclusive).  Empty at the end.  Raises
        OffsetOutOfRangeError for an offset outside the log, NodeClosedError if the log is closed, StorageFailure,
        CorruptLogError.
        """
        log_end_offset = self._segments.end_offset
        limit = log_end_offset if end_offset is None or end_offset > log_end_offset else end_offset
        self._check_offset(offset)
        if offset >= limit:
            return b""
        self._durability.check_open()
        try:
            return self._segments.read(offset, max_bytes, limit)
        except (OSError, CorruptLogError) as error:
            raise self._durability.read_failure(error) from error

    def _check_offset(self, offset: int) -> None:
        if not self._segments.start_offset <= offset <= self._segments.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset}: the log has offsets {self.log_start_offset} to {self.end_offset}"
            )

    def bytes_before(self, offset: int) -> int:
        """Return the number of bytes before the batch that contains `offset`, counted from a fixed point.

        Trims do not move that point.  Raises the same errors as `read`.
        """
        self._check_offset(offset)
        self._durability.check_open()
        try:
            return self._segments.bytes_before(offset)
        except (OSError, CorruptLogError) as error:
            raise self._durability.read_failure(error) from error

    def batch_base_offset(self, offset: int) -> int:
        """Return the first offset of the batch that contains `offset`; the end of the log is its own base offset.

        Raises the same errors as `read`.
        """
        self._check_offset(offset)
        if offset == self._segments.end_offset:
            return offset
        self._durability.check_open()
        try:
            return self._segments.batch_of(offset)[2]
        except (OSError, CorruptLogError) as error:
            raise self._durability.read_failure(error) from error

    def iter_batches(self, offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the header and bytes of each batch, from the one that contains `offset` to those below `end_offset`."""
        while offset < end_offset and (data := self.read(offset, _READ_CHUNK_BYTES, end_offset)):
            for position, header in iter_headers(data):
                yield header, data[position : position + header.size_in_bytes]
                offset = header.next_offset

    async def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record of `timestamp_ms` or later; None if there is no such record.

        Raises ProtocolError for records that cannot be read, NodeClosedError, StorageFailure, CorruptLogError.
        """
        self._durability.check_open()
        try:
            found = self._segments.batch_for_timestamp(timestamp_ms)
        except (OSError, CorruptLogError) as error:
            raise self._durability.read_failure(error) from error
        batch = b"" if found is None else self.read(found.base_offset, found.size_in_bytes)
        await trio.lowlevel.checkpoint()
        return None if found is None else await first_record_since(timestamp_ms, batch, found)

    def validate_fetch(self, fetch_offset: int, last_fetched_epoch: int) -> FetchPositionCheck:
        """Judge a replica's fetch position, as the leader; see `check_fetch_position`.

        An empty replica gets the newest snapshot, if there is one.  Other replicas get it only if the log no longer
        reaches back far enough.
        """
        start_offset, end = self._segments.start_offset, self.end
        if start_offset < fetch_offset == end.offset and last_fetched_epoch == end.epoch:
            # Most replicas are caught up.  Their logs agree with this one, and they need no snapshot.
            return Valid()
        return check_fetch_position(
            fetch_offset,
            last_fetched_epoch,
            log_start_offset=start_offset,
            log_end=end,
            epochs=self._state.epochs,
            earliest_snapshot_id=self.snapshots.oldest if start_offset else None,
            latest_snapshot_id=self.snapshots.to_offer(needs_one=start_offset > 0),
        )

    # Appending

    def append_as_leader(self, batches: Buffer, leader_epoch: int) -> Appended:
        """Append whole batches, and give them the next offsets and the leader's epoch.

        The caller has checked their CRCs.  A bytearray is patched in place, anything else is copied.  Raises
        ProtocolError if the bytes are not whole batches, RecordTooLargeError for a batch above the configured limit,
        DiskFullError (nothing is appended in these cases), StorageFailure.
        """
        self._durability.check_appendable()
        assert leader_epoch >= self._latest_epoch, f"epoch {leader_epoch} after {self._latest_epoch}"
        buffer = batches if isinstance(batches, bytearray) else bytearray(batches)
        plan = plan_leader_append(buffer, self._segments.end_offset, leader_epoch, self._max_batch_bytes)
        return self._appender.append(buffer, plan, self._high_watermark)

    def append_as_follower(self, batches: Buffer, max_epoch: int | None = None) -> Appended:
        """Append what a leader sent: whole batches with their offsets and epochs.

        An incomplete batch at the end is ignored.  Raises ProtocolError, and appends nothing, if a CRC is wrong, the
        offsets do not continue this log, or an epoch falls or exceeds `max_epoch`.  Raises DiskFullError, also without
        appending, and StorageFailure.
        """
        self._durability.check_appendable()
        end_offset = self._segments.end_offset
        plan = plan_follower_append(batches, end_offset, self._latest_epoch, max_epoch)
        if not plan.batches:
            return Appended(end_offset, end_offset)
        if plan.size < len(batches):
            batches = memoryview(batches)[: plan.size]
        return self._appender.append(batches, plan, self._high_watermark)

    async def sync(self, *, may_block: bool = False) -> int:
        """Make everything durable that was appended or truncated before the call; return that end (exclusive).

        Always waits until the fsync ends.  With `may_block`, blocks the event loop while the device is fast.  If the
        caller is cancelled meanwhile, moves `synced_end_offset` and then raises Cancelled.  Raises StorageFailure if
        this fsync fails, or if the log is poisoned.
        """
        return await self._durability.sync(may_block=may_block)

    def advance_high_watermark(self, offset: int) -> None:
        """Note that everything before `offset` (exclusive) is committed.  A lower offset changes nothing.

        An offset beyond the end of the log is a bug and raises AssertionError.  Raises StorageFailure.
        """
        assert 0 <= offset <= self.end_offset, f"high watermark {offset}, the log ends at {self.end_offset}"
        known = self._high_watermark
        if known is None or offset > known:
            self._high_watermark = offset
            self._durability.note_high_watermark(offset)
            for watcher in self._watchers:
                watcher.high_watermark_advanced(known, offset)
            self._durability.wake()

    # Truncating

    def truncate_to(self, offset: int) -> None:
        """Remove every record at or above `offset`: the first offset of a batch, or the end.  Durable after a sync.

        Epochs, voters and producers go back as well; await `restore_producers` next.  An offset below the high
        watermark is a bug and raises AssertionError (invariant HighWatermarkNeverFalls).  Raises ValueError, and
        changes nothing, for an offset inside a batch or outside the log; raises StorageFailure.
        """
        self._durability.check_usable()
        assert self._high_watermark is None or offset >= self._high_watermark, (
            f"truncation to offset {offset}, below the high watermark {self._high_watermark}"
        )
        if offset == self.end_offset:
            return
        if not self.log_start_offset <= offset < self.end_offset:
            raise ValueError(
                f"truncation to offset {offset}: the log has offsets {self.log_start_offset} to {self.end_offset}"
            )
        try:
            segment, position, base_offset = self._segments.batch_of(offset)
        except (OSError, CorruptLogError) as error:
            raise self._durability.read_failure(error) from error
        if base_offset != offset:
            raise ValueError(f"truncation to offset {offset}: inside the batch that begins at offset {base_offset}")
        try:
            self._durability.begin_truncation(offset)
            self._segments.truncate(segment, position, offset)
            self._state.truncate_to(offset, self._segments, self._high_watermark)
        except (OSError, KraftError) as error:
            raise self._durability.poison(error) from error
        for watcher in self._watchers:
            watcher.truncated(offset)
        self._durability.wake()

    async def restore_producers(self) -> None:
        """Restore the producers after a truncation, in short steps.  If nobody calls it, the next use does it at once.

        Shielded.  Raises StorageFailure.
        """
        with trio.CancelScope(shield=True):
            try:
                while self._state.replay_some():
                    await trio.lowlevel.checkpoint()
            except (OSError, CorruptLogError) as error:
                raise self._durability.poison(error) from error

    def truncate_fully_to(self, snapshot_id: OffsetAndEpoch) -> None:
        """Remove every record: the log starts and ends at the end of that snapshot.  Durable on return.

        Voters, kraft.version, epochs and producers become the snapshot's (scenario S11), and the high watermark its
        end.  If another task holds `trimming`, if the snapshot ends below the high watermark, or if it is not the
        newest, that is a bug and raises AssertionError.  Blocks for fsyncs.  Raises StorageFailure.
        """
        self._durability.check_usable()
        assert self._high_watermark is None or snapshot_id.offset >= self._high_watermark, (
            f"snapshot {snapshot_id} ends below the high watermark {self._high_watermark}"
        )
        self._trimmer.replace_log(snapshot_id)
        self._appender.begin_segment()
        for watcher in self._watchers:
            watcher.replaced(snapshot_id)
        self._durability.wake()
        self.advance_high_watermark(snapshot_id.offset)

    # Snapshots and trimming

    def next_snapshot_id(self, end_offset: int) -> OffsetAndEpoch | None:
        """Return the id of a snapshot of everything before `end_offset` (exclusive); None if one as new exists.

        Raises ValueError for an offset above the high watermark, inside a batch or outside the log: see
        `protocol.snapshot_ids`.
        """
        return next_snapshot_id(
            end_offset,
            high_watermark=self._high_watermark,
            batch_base_offset=self.batch_base_offset(end_offset),
            epochs=self._state.epochs,
            newest=self.snapshots.newest_intact,
        )

    def add_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Note that a snapshot is in the log's directory, whole and durable: written here or fetched.

        It is removed if the log by now starts after its end.  Raises StorageFailure.
        """
        self._durability.check_usable()
        self.snapshots.add(snapshot_id)
        try:
            self._segments.retired += self.snapshots.retire_below(self._segments.start_offset)
        except OSError as error:
            raise self._durability.poison(error) from error

    @property
    def trimming(self) -> trio.Lock:
        """A lock that a trim holds, which waits for the device between its steps.

        A task that replaces the log by a snapshot takes it first.  Otherwise a crash could bring back a segment that is
        being dropped, in addition to the new one.  Nothing else needs it: a trim changes only what a snapshot covers.
        """
        return self._trimmer.lock

    @property
    def start_moved(self) -> trio.lowlevel.ParkingLot:
        """Wakes its waiters when a trim has moved `log_start_offset`."""
        return self._trimmer.start_moved

    async def trim(self, limits: RetentionLimits, spared: Spared = frozenset) -> bool:
        """Drop old segments and snapshots until the files are within the limits; return whether any was dropped.

        Only segments that the oldest snapshot covers are dropped, and the newest snapshot always stays.  Each dropped
        file is durably renamed, one at a time, and other tasks run meanwhile; `remove_retired` deletes it.
        `plan_retention` says how long the snapshots in `spared` stay.

        A cancelled trim ends after the current step.  Raises CorruptSnapshotError if the newest snapshot is damaged;
        nothing is dropped then.  Raises StorageFailure.
        """
        return await self._trimmer.trim(limits, spared)

    async def remove_retired(self) -> None:
        """Delete the files that were dropped.  The next open deletes those that cannot be deleted now.  Shielded."""
        await self._trimmer.remove_retired()

    # Closing

    async def close(self) -> None:
        """Sync, note that the whole log is good, and release the files.  Shielded, like `sync`.

        A poisoned log only releases its files.  Closing again does nothing.  Raises StorageFailure.
        """
        durability = self._durability
        if durability.is_closed:
            return
        try:
            if durability.poisoned is None:
                await durability.sync_all()
                self._appender.note_clean_end()
        except OSError as error:
            raise durability.poison(error) from error
        finally:
            durability.is_closed = True
            try:
                self._segments.close()
            finally:
                durability.recovery_point.close()
            durability.wake()
