"""Writes planned appends, and starts new segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from kraft_trio.logs import get_logger
from kraft_trio.protocol.producers import DEFAULT_MAX_PRODUCERS
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.disk.failures import is_disk_full, is_out_of_descriptors
from kraft_trio.storage.log.durability import Durability
from kraft_trio.storage.log.log_state import LogState
from kraft_trio.storage.log.log_watcher import LogWatcher
from kraft_trio.storage.segments.leader_epoch_checkpoint import write_leader_epochs
from kraft_trio.storage.segments.log_append import PlannedBatches
from kraft_trio.storage.segments.preallocation import DEFAULT_PREALLOCATE_BYTES, zeros_behind
from kraft_trio.storage.segments.producer_snapshot import write_known_good_point
from kraft_trio.storage.segments.segment import MAX_RELATIVE_OFFSET
from kraft_trio.storage.segments.segments import Segments

log = get_logger(__name__)


def _is_segment_size(_instance: object, _attribute: object, value: int) -> None:
    if not 1 <= value < 2**31:
        raise ValueError(f"segment_bytes: {value}, expected 1 to {2**31 - 1}: positions in an index are int32")


@attrs.frozen
class LogConfig:
    """Sizes in bytes, times in milliseconds."""

    segment_bytes: int = attrs.field(default=1024 * 1024 * 1024, validator=_is_segment_size)
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    max_batch_bytes: int = 8 * 1024 * 1024
    """The largest batch that a leader appends.  A follower accepts any batch that its leader has."""
    preallocate_bytes: int = DEFAULT_PREALLOCATE_BYTES
    """The active segment grows in steps of this, by zeros; 0: only by what is appended."""
    max_producers: int = DEFAULT_MAX_PRODUCERS
    """Idempotent producers that the log remembers."""


@attrs.frozen
class Appended:
    """The offsets of an append: the first one, and the one after the last (exclusive)."""

    base_offset: int
    next_offset: int


class LogAppender:
    """Appends to the active segment, and to a new one when that is large or old.  Owned by its `Log`."""

    def __init__(
        self,
        segments: Segments,
        state: LogState,
        durability: Durability,
        watchers: Sequence[LogWatcher],
        config: LogConfig,
        now_ms: Callable[[], int],
    ) -> None:
        self._segments = segments
        self._state = state
        self._durability = durability
        self._watchers = watchers
        self._config = config
        self._now_ms = now_ms
        self._grows_on = False
        """Whether the active segment is larger or older than it should be, because descriptors are short."""
        self._active_since_ms = now_ms()
        """When this process began to append to the active segment.  Clients choose the timestamps of batches."""

    def begin_segment(self) -> None:
        """Note that the active segment is a new one."""
        self._active_since_ms = self._now_ms()

    def append(self, buffer: Buffer, plan: PlannedBatches, high_watermark: int | None) -> Appended:
        """Write, fold and announce the batches of a plan.  Raises DiskFullError, StorageFailure."""
        segments, state, durability = self._segments, self._state, self._durability
        base_offset = segments.end_offset
        try:
            if durability.truncations != durability.synced_truncations:
                # A crash must not bring back what was truncated behind what is written now.
                durability.sync_now()
            if self._is_time_to_roll(plan) and self._may_roll(plan):
                self._roll(plan)
            if plan.batches[-1].leader_epoch != state.epochs.latest_epoch:
                # The batches say the same, and the next open writes the file again.
                write_leader_epochs(
                    segments.disk, segments.directory, state.epochs_after(plan), may_skip=is_out_of_descriptors
                )
            segments.append(
                buffer,
                plan.batches,
                zeros_behind(
                    segments.active.size + plan.size,
                    plan.size,
                    preallocate_bytes=self._config.preallocate_bytes,
                    segment_bytes=self._config.segment_bytes,
                ),
            )
        except OSError as error:
            raise durability.append_failure(error, plan.size) from error
        try:
            state.fold(plan, segments.end_offset, high_watermark)
        except Exception as error:
            # File and memory now differ.  That is this node's failure, and not the sender's.
            raise durability.poison(error) from error
        if self._watchers:
            active = segments.active
            for watcher in self._watchers:
                watcher.appended(buffer, plan.batches, active.file.path, active.size - plan.size)
        durability.wake_for_append()
        return Appended(base_offset, segments.end_offset)

    def _is_time_to_roll(self, plan: PlannedBatches) -> bool:
        active = self._segments.active
        size = active.size
        if not size:
            return False
        return (
            size + plan.size > self._config.segment_bytes
            or self._now_ms() - self._active_since_ms >= self._config.segment_ms
            or self._is_too_long(plan)
        )

    def _may_roll(self, plan: PlannedBatches) -> bool:
        """Whether descriptors are left for a new segment.  Without them the segment grows on, as long as it can."""
        segments = self._segments
        if segments.disk.may_keep_another_file() or self._is_too_long(plan):
            self._grows_on = False
            return True
        if not self._grows_on:
            self._grows_on = True
            log.warning("too few file descriptors are left: the segment grows on", directory=segments.directory)
        return False

    def _is_too_long(self, plan: PlannedBatches) -> bool:
        return plan.batches[-1].last_offset - self._segments.active.base_offset > MAX_RELATIVE_OFFSET

    def _roll(self, plan: PlannedBatches) -> None:
        """Start a new segment.  Blocks until the old one is durable: only the last segment may have a torn tail.

        Without a free file descriptor the old segment keeps growing.
        """
        segments = self._segments
        segments.end_preallocation()
        self._durability.sync_now()
        try:
            segments.roll()
            self.begin_segment()
            write_known_good_point(segments.disk, segments.directory, segments.end_offset, self._state.producers)
        except OSError as error:
            if not is_out_of_descriptors(error) or self._is_too_long(plan):
                raise
            log.warning("no file can be opened: the segment grows on", directory=segments.directory, reason=str(error))

    def note_clean_end(self) -> None:
        """Write what lets the next open trust a synced log.  On a full disk the recovery point stays instead.

        Raises OSError.
        """
        segments = self._segments
        try:
            segments.end_preallocation()
            segments.write_indexes()
            write_known_good_point(segments.disk, segments.directory, segments.end_offset, self._state.producers)
            self._durability.recovery_point.end()
        except OSError as error:
            if not is_disk_full(error):
                raise
            log.warning(
                "closed without a known good point, or with an old recovery point",
                directory=segments.directory,
                reason=str(error),
            )
