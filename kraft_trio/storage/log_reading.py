"""What everyone may do with the log at any time: read it, search it, judge fetch positions by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from kraft_trio.errors import CorruptLogError, NodeClosedError, OffsetOutOfRangeError, StorageFailure
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.reconciliation import FetchPositionCheck, check_fetch_position
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    iter_headers,
)
from kraft_trio.storage.record_chunks import record_chunks
from kraft_trio.storage.segments import Segments
from kraft_trio.storage.snapshots import Snapshots

_READ_CHUNK_BYTES = 1024 * 1024


class ReadableLog:
    """The reading half of `Log`: synchronous, changes nothing, and sees what is appended, synced or not."""

    def __init__(
        self,
        directory: str,
        segments: Segments,
        end_offset: int,
        epochs: EpochCache,
        snapshots: Snapshots,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._end_offset = end_offset
        self.epochs = epochs
        self.snapshots = snapshots
        self._closed = False

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def log_start_offset(self) -> int:
        """The first offset in the log (inclusive).  Above 0 there is a snapshot that ends there or later."""
        return self._segments.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record to be appended (exclusive end)."""
        return self._end_offset

    @property
    def end(self) -> OffsetAndEpoch:
        """The end offset (exclusive), and the epoch of the last record before it; 0 where there never was one.

        A log without records that begins at a snapshot's end goes on in the snapshot's epoch.
        """
        newest = self.snapshots.newest
        if not len(self.epochs) and newest is not None:
            return OffsetAndEpoch(self._end_offset, newest.epoch)
        return OffsetAndEpoch(self._end_offset, self.epochs.latest_epoch)

    @property
    def size_in_bytes(self) -> int:
        return self._segments.size_in_bytes

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes:
        """Whole batches from the one that holds `offset`: what fits in `max_bytes`, but one at least.

        Only batches wholly below `end_offset` (exclusive) where that is given; unsynced ones included.  Empty at the
        end.  Raises OffsetOutOfRangeError for an offset outside the log, NodeClosedError for a closed one,
        StorageFailure, CorruptLogError.
        """
        limit = self._end_offset if end_offset is None or end_offset > self._end_offset else end_offset
        self._check_offset(offset)
        if offset >= limit:
            return b""
        with self._reading():
            return self._segments.read(offset, max_bytes, limit)

    def bytes_before(self, offset: int) -> int:
        """How many bytes of batches come before the one that holds `offset`, counted from a point of the past.

        Trims leave that point where it is.  Raises OffsetOutOfRangeError, NodeClosedError, StorageFailure,
        CorruptLogError.
        """
        self._check_offset(offset)
        with self._reading():
            return self._segments.bytes_before(offset)

    def _check_offset(self, offset: int) -> None:
        if not self._segments.start_offset <= offset <= self._end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset}: the log has offsets {self.log_start_offset} to {self._end_offset}"
            )

    def iter_batches(self, offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Header and bytes of each batch, from the one that holds `offset` to those wholly below `end_offset`."""
        while offset < end_offset and (data := self.read(offset, _READ_CHUNK_BYTES, end_offset)):
            for position, header in iter_headers(data):
                yield header, data[position : position + header.size_in_bytes]
                offset = header.next_offset

    async def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record whose timestamp is `timestamp_ms` or later; None without one.

        Finds the batch in one step, and lets others run while it looks through its records.  Raises ProtocolError for
        compressed records that cannot be read, StorageFailure, CorruptLogError.
        """
        with self._reading():
            found = self._segments.batch_for_timestamp(timestamp_ms)
        batch = b"" if found is None else self.read(found.base_offset, found.size_in_bytes)
        await trio.lowlevel.checkpoint()
        if found is None:
            return None
        for records in record_chunks(batch, 0, found, DEFAULT_MAX_DECOMPRESSED_BYTES):
            for record in records:
                if record.timestamp_ms >= timestamp_ms:
                    return record.offset, record.timestamp_ms
            await trio.lowlevel.checkpoint()
        return None

    def validate_fetch(self, fetch_offset: int, last_fetched_epoch: int) -> FetchPositionCheck:
        """The leader's judgement of a replica's fetch position; see `check_fetch_position`.

        A replica that has nothing is told of the newest snapshot where there is one, and any other one only where the
        log no longer reaches back far enough.
        """
        return check_fetch_position(
            fetch_offset,
            last_fetched_epoch,
            log_start_offset=self.log_start_offset,
            log_end=self.end,
            epochs=self.epochs,
            earliest_snapshot_id=self.snapshots.oldest if self.log_start_offset else None,
            latest_snapshot_id=self._snapshot_to_name,
        )

    @property
    def _snapshot_to_name(self) -> OffsetAndEpoch | None:
        """The newest that may be given out; where the log alone does not do, and none may be, one that is refused."""
        fit = self.snapshots.newest_fit
        return self.snapshots.newest if fit is None and self.log_start_offset else fit

    def batch_base_offset(self, offset: int) -> int:
        """The first offset of the batch that holds `offset`; at the end of the log the offset itself.

        Raises OffsetOutOfRangeError, StorageFailure, CorruptLogError.
        """
        self._check_offset(offset)
        if offset == self._end_offset:
            return offset
        with self._reading():
            _, _, base_offset = self._segments.batch_of(offset)
        return base_offset

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._check_open()
        try:
            yield
        except CorruptLogError as error:
            raise self._damaged(error) from error
        except OSError as error:
            raise StorageFailure(f"{self._directory}: cannot read the log: {error}") from error

    def _damaged(self, error: CorruptLogError) -> CorruptLogError:
        """What a read raises that has met damage."""
        return error

    def _check_open(self) -> None:
        if self._closed:
            raise NodeClosedError(f"{self._directory}: the log is closed")
