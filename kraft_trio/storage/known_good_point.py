"""The last known good point of a log: a producer snapshot says that all before its offset was synced."""

from __future__ import annotations

import structlog

from kraft_trio.errors import StorageError
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.storage import partition_files
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.log_scan import record_producers
from kraft_trio.storage.producer_snapshot import encode_producer_snapshot, load_producer_snapshot
from kraft_trio.storage.segments import Segments

log = structlog.get_logger(__name__)


def write_known_good_point(disk: Disk, directory: str, offset: int, producers: ProducerStates) -> None:
    """Everything before `offset` (exclusive), the end of the log, has been synced; older such notes are removed.

    Not durable itself: where it gets lost, more of the log is checked at the next open.  The one at the start of a
    trimmed log stays: it holds what is no longer in the log.
    """
    disk.replace_now(_path(directory, offset), encode_producer_snapshot(producers), durable=False)
    names = disk.list_directory(directory)
    log_start_offset = partition_files.offsets_of(names, partition_files.LOG)[0]
    for older in partition_files.offsets_of(names, partition_files.PRODUCER_SNAPSHOT):
        if older < offset and older != log_start_offset:
            disk.remove(_path(directory, older))


def forget_known_good_points_above(disk: Disk, directory: str, offset: int) -> None:
    """The log is about to be cut at `offset`: what lies above it will be something else.

    Blocks for an fsync where there are any: they must be gone before the log changes.
    """
    names = disk.list_directory(directory)
    above = [o for o in partition_files.offsets_of(names, partition_files.PRODUCER_SNAPSHOT) if o > offset]
    for stale in above:
        disk.remove(_path(directory, stale))
    if above:
        disk.sync_directory(directory)


def load_known_good_point(disk: Disk, directory: str, log_start_offset: int, producers: ProducerStates) -> int:
    """The offset of the last known good point, the start of the log without one.

    Where the log does not start at 0, the producers as they were there are recorded.
    """
    known_good_offset = log_start_offset
    for offset in partition_files.offsets_of(disk.list_directory(directory), partition_files.PRODUCER_SNAPSHOT):
        path = _path(directory, offset)
        is_start = 0 < offset == log_start_offset
        try:
            load_producer_snapshot(path, disk.read_bytes(path), producers if is_start else ProducerStates())
        except StorageError as error:
            log.warning("producer snapshot ignored", reason=str(error))
            continue
        known_good_offset = max(known_good_offset, offset)
    return known_good_offset


def rebuild_producers(disk: Disk, directory: str, segments: Segments, producers: ProducerStates) -> None:
    """Derive the producers anew from what is in the log, after a truncation that they could not follow."""
    producers.clear()
    load_known_good_point(disk, directory, segments.start_offset, producers)
    for segment in segments:
        with segment.file.view() as view:
            record_producers(view, producers)


def _path(directory: str, offset: int) -> str:
    return join(directory, partition_files.offset_file_name(offset, partition_files.PRODUCER_SNAPSHOT))
