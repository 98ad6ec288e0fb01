"""The segments of a log: which file and position an offset has, and the bytes there."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from crc32c import crc32c

from kraft_trio.errors import CorruptLogError, ProtocolError
from kraft_trio.storage.batches.batch_header import CRC_START, FRAME_BYTES, HEADER_BYTES, BatchHeader, peek_header
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Buffer, Disk, join
from kraft_trio.storage.disk.failures import is_disk_full, is_out_of_descriptors
from kraft_trio.storage.segments.log_append import PlannedBatch
from kraft_trio.storage.segments.producer_snapshot import forget_known_good_points_above
from kraft_trio.storage.segments.retention import SealedSegment
from kraft_trio.storage.segments.segment import Segment

_CHECKED_FIELDS = struct.Struct(">qi5xI")
"""Of a batch's header: base offset, length, CRC."""
_FRAME = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION = 23
_MAX_KNOWN_POSITIONS = 8192
_MAX_NEWEST_BYTES = 64 * 1024


class Segments:
    """The segments, oldest first.  The last one is active.  Owned by a `Log`.

    Every method is synchronous and may raise OSError.
    """

    def __init__(self, disk: Disk, directory: str, segments: list[Segment], end_offset: int) -> None:
        self.disk = disk
        self.directory = directory
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self._starts = [0]
        """The bytes before each segment, counted from a point that trims do not move."""
        for segment in segments[:-1]:
            self._starts.append(self._starts[-1] + segment.size)
        self.active = segments[-1]
        self.end_offset = end_offset
        self._known_positions = {end_offset: self.active.size}
        """Positions in the active segment, by the offset of the batch that starts, or will start, there."""
        self._ends_in_zeros = False
        """Whether the active segment may."""
        self._newest: bytes | bytearray = b""
        """What was appended last, unless it is large, for the replicas that read it next."""
        self._newest_offset = -1
        """Where it begins; -1 for nothing."""
        self._newest_is_checked = False
        self.retired: list[str] = []
        """Renamed files of dropped segments and snapshots, still to be deleted.  The next open deletes them, too."""

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def start_offset(self) -> int:
        return self._base_offsets[0]

    @property
    def size_in_bytes(self) -> int:
        return self._starts[-1] + self.active.size - self._starts[0]

    def sealed(self) -> list[SealedSegment]:
        """All but the active one, oldest first."""
        ends = self._base_offsets[1:]
        return [
            SealedSegment(segment.base_offset, next_offset, segment.size)
            for segment, next_offset in zip(self._segments, ends, strict=False)
        ]

    def append(self, buffer: Buffer, batches: Sequence[PlannedBatch], preallocate: int = 0) -> None:
        """Write batches to the active segment.  See `DiskFile.append` for `preallocate`."""
        active = self.active
        position = active.size
        self._ends_in_zeros = self._ends_in_zeros or preallocate > 0
        active.file.append(buffer, preallocate)
        known_positions = self._known_positions
        if len(known_positions) > _MAX_KNOWN_POSITIONS:
            known_positions.clear()
            known_positions[self.end_offset] = position
        note_batch = active.note_batch
        for batch in batches:
            size = batch.size
            note_batch(position, size, batch.last_offset, batch.max_timestamp_ms)
            position += size
            known_positions[batch.last_offset + 1] = position
        self._newest_offset = -1
        if len(buffer) <= _MAX_NEWEST_BYTES and isinstance(buffer, bytes | bytearray):
            self._newest, self._newest_offset, self._newest_is_checked = buffer, self.end_offset, False
        self.end_offset = batches[-1].last_offset + 1

    def end_preallocation(self) -> None:
        """Cut the zeros behind the active segment's last batch."""
        if self._ends_in_zeros:
            self.active.file.truncate(self.active.size)
            self._ends_in_zeros = False

    def roll(self) -> None:
        """Start a new active segment.  The caller has cut and synced the old one.  Blocks for a directory fsync.

        If it fails because no file can be opened, or the disk is full, nothing has changed.
        """
        self.active.write_indexes(self.disk, self.directory)
        path = self._path(self.end_offset, partition_files.LOG)
        segment = Segment(self.end_offset, self.disk.open(path, create=True))
        try:
            self.disk.sync_directory(self.directory)
        except OSError as error:
            if is_out_of_descriptors(error) or is_disk_full(error):
                segment.file.close()
                self.disk.remove(path)
            raise
        self.active.thin_indexes()
        self._starts.append(self._starts[-1] + self.active.size)
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment
        self._known_positions = {self.end_offset: 0}

    def batch_of(self, offset: int) -> tuple[Segment, int, int]:
        """Return segment, position and base offset of the batch that contains `offset`, which must be in the log."""
        segment = self._segment_of(offset)
        return segment, *segment.position_of(offset)

    def bytes_before(self, offset: int) -> int:
        """Return the number of bytes before the batch that contains `offset`: in the log, or its end.

        Trims do not move the point that they count from, so differences stay meaningful.  Raises CorruptLogError.
        """
        position = self._known_positions.get(offset)
        if position is not None:
            return self._starts[-1] + position
        if offset == self.end_offset:
            return self._starts[-1] + self.active.size
        index = bisect_right(self._base_offsets, offset) - 1
        return self._starts[index] + self._segments[index].position_of(offset)[0]

    def truncate(self, segment: Segment, position: int, offset: int) -> None:
        """Cut the log at this position, where the batch with base offset `offset` starts.

        Removes later known good points first, then later segments, newest first.  So a crash leaves a log without a
        gap.  Blocks for a directory fsync for each removed segment.
        """
        forget_known_good_points_above(self.disk, self.directory, offset)
        while self.active is not segment:
            removed = self._segments.pop()
            self._base_offsets.pop()
            self._starts.pop()
            self.active = self._segments[-1]
            removed.file.close()
            self._remove_indexes(removed)
            self.disk.remove(removed.file.path)
            self.disk.sync_directory(self.directory)
            self._remove_indexes(self.active)
        segment.truncate(position, offset)
        self._newest_offset, self._ends_in_zeros = -1, False
        self.end_offset = offset
        self._known_positions = {offset: position}

    @property
    def oldest(self) -> Segment:
        """The segment that the log starts with."""
        return self._segments[0]

    def forget_oldest(self) -> None:
        """Drop the first segment, whose file has been renamed durably."""
        assert len(self._segments) > 1, "the active segment is never dropped"
        dropped = self._segments.pop(0)
        self._base_offsets.pop(0)
        self._starts.pop(0)
        dropped.file.close()
        self._remove_indexes(dropped)

    def replace_all(self, offset: int) -> None:
        """Drop every segment and start an empty one at `offset`.  The recovery point is at the log's start.

        Removes known good points first, then the segments, newest first.  After a crash, the log has its old start or
        no segments; opening then finishes the replacement.  Blocks for a directory fsync for each segment.
        """
        forget_known_good_points_above(self.disk, self.directory, self.start_offset)
        for dropped in reversed(self._segments):
            self._retire(dropped)
        path = self._path(offset, partition_files.LOG)
        self.active = Segment(offset, self.disk.open(path, create=True))
        self.disk.sync_directory(self.directory)
        self._segments = [self.active]
        self._base_offsets = [offset]
        self._starts = [0]
        self._newest_offset = -1
        self.end_offset = offset
        self._known_positions = {offset: 0}

    def _retire(self, segment: Segment) -> None:
        """Rename the segment's file, to be deleted later."""
        segment.file.close()
        name = partition_files.offset_file_name(segment.base_offset, partition_files.LOG)
        self.retired.append(partition_files.retire(self.disk, self.directory, name))
        self._remove_indexes(segment)

    def read(self, offset: int, max_bytes: int, limit: int) -> bytes:
        """Return whole batches from the one that contains `offset`, up to `limit` (exclusive); both are in the log.

        As many as fit in `max_bytes`, but at least one; empty if the first one ends beyond the limit.  Checks each
        CRC, so that no damaged batch is returned.  Raises CorruptLogError.
        """
        if offset == self._newest_offset and limit == self.end_offset and len(self._newest) <= max_bytes:
            if not self._newest_is_checked:
                self._check_newest()
            return bytes(self._newest)
        known_positions = self._known_positions
        segment = self.active
        position = known_positions.get(offset)
        if position is None:
            segment = self._segment_of(offset)
            position, _ = segment.position_of(offset)
        if segment is self.active:
            end_position = known_positions.get(limit)
            if end_position is not None and end_position - position <= max_bytes:
                return _undamaged(segment, position, segment.file.read_at(position, end_position - position))
        data = segment.file.read_at(position, max(max_bytes, HEADER_BYTES))
        size, last_size, next_offset = _whole_batches(data, max_bytes, limit)
        if size:
            if segment is self.active and len(known_positions) <= _MAX_KNOWN_POSITIONS:
                known_positions[next_offset] = position + size
            return _undamaged(segment, position, data if size == len(data) else data[:size])
        if last_size:
            return _undamaged(segment, position, segment.file.read_at(position, last_size))
        return b""

    def _check_newest(self) -> None:
        position = self.active.size - len(self._newest)
        self._newest, self._newest_is_checked = _undamaged(self.active, position, bytes(self._newest)), True

    def batch_for_timestamp(self, timestamp_ms: int) -> BatchHeader | None:
        """Return the header of the first batch with a record of that time or later, or None."""
        for segment in self._segments:
            if segment.max_timestamp_ms < timestamp_ms or not segment.size:
                continue
            position = segment.index.lookup_time(timestamp_ms)
            while position < segment.size:
                header = self.header_at(segment, position)
                if header.max_timestamp_ms >= timestamp_ms:
                    return header
                position += header.size_in_bytes
        return None

    def header_at(self, segment: Segment, position: int) -> BatchHeader:
        """Return the batch header at a position.  Raises CorruptLogError."""
        try:
            return peek_header(segment.file.read_at(position, HEADER_BYTES))
        except ProtocolError as error:
            raise CorruptLogError(f"{segment.file.path}: position {position}: {error}") from error

    def write_indexes(self) -> None:
        self.active.write_indexes(self.disk, self.directory)

    def close(self) -> None:
        for segment in self._segments:
            segment.file.close()

    def _segment_of(self, offset: int) -> Segment:
        if offset >= self.active.base_offset:
            return self.active
        return self._segments[bisect_right(self._base_offsets, offset) - 1]

    def _remove_indexes(self, segment: Segment) -> None:
        for suffix in (partition_files.OFFSET_INDEX, partition_files.TIME_INDEX):
            path = self._path(segment.base_offset, suffix)
            if self.disk.exists(path):
                self.disk.remove(path)

    def _path(self, offset: int, suffix: str) -> str:
        return join(self.directory, partition_files.offset_file_name(offset, suffix))


def _undamaged(segment: Segment, position: int, data: bytes) -> bytes:
    """Return `data`, the whole batches at that position, unchanged.  Raises CorruptLogError if a CRC is wrong."""
    start, end = 0, len(data)
    with memoryview(data) as view:
        while start < end:
            left = end - start
            if left < HEADER_BYTES:
                raise CorruptLogError(
                    f"{segment.file.path}: position {position + start}: {left} bytes are left, expected at least "
                    f"{HEADER_BYTES}"
                )
            base_offset, length, crc = _CHECKED_FIELDS.unpack_from(data, start)
            size = length + FRAME_BYTES
            if not HEADER_BYTES <= size <= left or crc32c(view[start + CRC_START : start + size]) != crc:
                raise CorruptLogError(
                    f"{segment.file.path}: position {position + start}: the batch at offset {base_offset} is damaged: "
                    f"expected {size} bytes with the CRC {crc:#010x}"
                )
            start += size
    return data


def _whole_batches(data: bytes, max_bytes: int, limit: int) -> tuple[int, int, int]:
    """Return the size of the whole batches in `data` that fit, the size of a first batch that does not, and the offset.

    The offset is the one after the batches that fit.  The second number is 0 unless the first batch is within `limit`
    but larger than `max_bytes` or `data`.
    """
    position = next_offset = 0
    end = min(len(data), max_bytes)
    while len(data) - position >= HEADER_BYTES:
        base_offset, length = _FRAME.unpack_from(data, position)
        (last_offset_delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_POSITION)
        size = length + FRAME_BYTES
        batch_end = base_offset + last_offset_delta + 1
        if batch_end > limit:
            break
        if position + size > end:
            return position, size if position == 0 else 0, next_offset
        position += size
        next_offset = batch_end
    return position, 0, next_offset
