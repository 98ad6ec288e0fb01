"""The last known good point of a log: a producer snapshot says that all before its offset was synced."""

from __future__ import annotations

import structlog

from kraft_trio.errors import StorageError
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.storage import partition_files
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.producer_snapshot import (
    decode_producer_snapshot,
    encode_producer_snapshot,
    load_producer_snapshot,
)
from kraft_trio.storage.snapshots import Snapshots

log = structlog.get_logger(__name__)


def write_known_good_point(disk: Disk, directory: str, offset: int, producers: ProducerStates) -> None:
    """Everything before `offset` (exclusive), the end of the log, has been synced; older such notes are removed.

    Not durable itself: where it gets lost, more of the log is checked at the next open.
    """
    disk.replace_now(_path(directory, offset), encode_producer_snapshot(producers), durable=False)
    names = disk.list_directory(directory)
    for older in partition_files.offsets_of(names, partition_files.PRODUCER_SNAPSHOT):
        if older < offset:
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


def load_known_good_point(disk: Disk, directory: str, log_start_offset: int) -> int:
    """The offset of the last known good point, the start of the log without one."""
    known_good_offset = log_start_offset
    for offset in partition_files.offsets_of(disk.list_directory(directory), partition_files.PRODUCER_SNAPSHOT):
        path = _path(directory, offset)
        try:
            decode_producer_snapshot(path, disk.read_bytes(path))
        except StorageError as error:
            log.warning("producer snapshot ignored", reason=str(error))
            continue
        known_good_offset = max(known_good_offset, offset)
    return known_good_offset


def load_producers(snapshots: Snapshots, log_start_offset: int, producers: ProducerStates) -> int:
    """Record the producers that the log itself no longer tells of; the offset from which on it does.

    A log that begins at 0 tells of all; of another one the newest snapshot does, up to its end.  Raises StorageError.
    """
    if log_start_offset == 0:
        return 0
    snapshot_id = snapshots.newest
    assert snapshot_id is not None, f"a log that begins at {log_start_offset} without a snapshot"
    encoded = snapshots.control_state(snapshot_id).producers
    if encoded:
        load_producer_snapshot(snapshots.path(snapshot_id), encoded, producers)
    return snapshot_id.offset


def _path(directory: str, offset: int) -> str:
    return join(directory, partition_files.offset_file_name(offset, partition_files.PRODUCER_SNAPSHOT))
