"""One segment of the log: a file of batches, and its indexes in memory."""

from __future__ import annotations

import struct

from kraft_trio.errors import CorruptLogError
from kraft_trio.storage.batches.batch_header import FRAME_BYTES, HEADER_BYTES, peek_header
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, DiskFile, join
from kraft_trio.storage.segments.offset_index import (
    INDEX_INTERVAL_BYTES,
    SEALED_INTERVAL_BYTES,
    OffsetIndex,
    TimeIndex,
)

_FRAME = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION = 23
_SEARCH_BYTES = INDEX_INTERVAL_BYTES + HEADER_BYTES
MAX_RELATIVE_OFFSET = 2**31 - 1


class Segment:
    """Whole, contiguous batches from `base_offset` on.  Only the log that owns it appends and truncates."""

    __slots__ = (
        "_bytes_since_entry",
        "base_offset",
        "file",
        "index",
        "last_offset_of_max_timestamp",
        "max_timestamp_ms",
        "time_index",
    )

    def __init__(self, base_offset: int, file: DiskFile) -> None:
        self.base_offset = base_offset
        self.file = file
        self.index = OffsetIndex(base_offset)
        self.time_index = TimeIndex(base_offset)
        self.max_timestamp_ms = -1
        self.last_offset_of_max_timestamp = base_offset
        self._bytes_since_entry = 0

    @property
    def size(self) -> int:
        return self.file.size()

    def note_batch(self, position: int, size: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Index the next batch of the file.  Called in the order of positions."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.last_offset_of_max_timestamp = last_offset
        if self._bytes_since_entry > INDEX_INTERVAL_BYTES:
            self.index.append(last_offset, position, self.max_timestamp_ms)
            self.time_index.append_if_later(self.max_timestamp_ms, self.last_offset_of_max_timestamp)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def truncate(self, position: int, offset: int) -> None:
        """Cut the file at `position`, where the batch with base offset `offset` starts, and its indexes."""
        self.file.truncate(position)
        self.index.truncate_to_position(position)
        self.time_index.truncate_to(offset)
        self.max_timestamp_ms, self.last_offset_of_max_timestamp = self.time_index.last_entry or (-1, self.base_offset)
        self._bytes_since_entry = 0
        at = self.index.last_position
        while at < position:
            header = peek_header(self.file.read_at(at, HEADER_BYTES))
            self.note_batch(at, header.size_in_bytes, header.last_offset, header.max_timestamp_ms)
            at += header.size_in_bytes

    def position_of(self, offset: int) -> tuple[int, int]:
        """Position and base offset of the batch that holds `offset`, which must be in the segment.

        Raises CorruptLogError where the batches on disk are not those that were appended.
        """
        position = self.index.lookup(offset)
        while True:
            chunk = self.file.read_at(position, _SEARCH_BYTES)
            at = 0
            while len(chunk) - at >= HEADER_BYTES:
                base_offset, length = _FRAME.unpack_from(chunk, at)
                (last_offset_delta,) = _LAST_OFFSET_DELTA.unpack_from(chunk, at + _LAST_OFFSET_DELTA_POSITION)
                if not base_offset <= offset or length < HEADER_BYTES - FRAME_BYTES:
                    raise self._not_found(offset, position + at)
                if offset <= base_offset + last_offset_delta:
                    return position + at, base_offset
                at += length + FRAME_BYTES
            if at == 0:
                raise self._not_found(offset, position)
            position += at

    def _not_found(self, offset: int, position: int) -> CorruptLogError:
        return CorruptLogError(
            f"{self.file.path}: position {position}: found no batch with offset {offset}, which was written here"
        )

    def thin_indexes(self) -> None:
        """Forget most entries of a sealed segment, whose index files have been written.

        What `truncate` needs is left: for each entry the largest timestamp up to it, and its offset.
        """
        self.time_index.thin_to(self.index.thin(SEALED_INTERVAL_BYTES))

    def write_indexes(self, disk: Disk, directory: str) -> None:
        """Write both index files of a whole segment, unless they are right already.  Raises OSError."""
        if self.max_timestamp_ms >= 0:
            self.time_index.append_if_later(self.max_timestamp_ms, self.last_offset_of_max_timestamp)
        contents = {
            partition_files.OFFSET_INDEX: self.index.encode(),
            partition_files.TIME_INDEX: self.time_index.encode(),
        }
        for suffix, content in contents.items():
            path = join(directory, partition_files.offset_file_name(self.base_offset, suffix))
            if not disk.exists(path) or disk.read_bytes(path) != content:
                disk.replace_now(path, content, durable=False)
