"""The file `<end offset>.snapshot`: the idempotent producers' state, which is also a *known good point* of the log.

The log writes it when it seals a segment and when it closes, after an fsync of everything before the offset.  So damage
before the newest of these files is never a torn tail.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from kraft_trio.errors import StorageError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, join

log = get_logger(__name__)

_VERSION = 1
_HEADER = struct.Struct(">hIi")
"""Version, CRC-32C of everything after it, count of producers."""
_CRC_END = 6
_ENTRY = struct.Struct(">qhiqiqiq")
"""Producer id, producer epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, offset of the
transaction under way."""
_NO_COORDINATOR_EPOCH = -1
_NO_TRANSACTION = -1


def encode_producer_snapshot(producers: ProducerStates) -> bytes:
    """The newest batch of each producer, as the format has room for."""
    pack = _ENTRY.pack
    entries = [
        pack(id, epoch, sequence, last, last - base, timestamp_ms, _NO_COORDINATOR_EPOCH, _NO_TRANSACTION)
        for id, epoch, sequence, base, last, timestamp_ms in producers.newest_batches()
    ]
    covered = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", _VERSION, crc32c(covered)) + covered


def decode_producer_snapshot(path: str, data: bytes) -> list[tuple[int, ...]]:
    """The entries, in the order of the file.  Raises StorageError, naming the file, unless it is whole."""
    if len(data) < _HEADER.size:
        raise StorageError(f"{path}: {len(data)} bytes, a producer snapshot has {_HEADER.size} or more")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise StorageError(f"{path}: version {version}, expected {_VERSION}")
    if crc32c(data[_CRC_END:]) != crc:
        raise StorageError(f"{path}: wrong CRC")
    if count * _ENTRY.size != len(data) - _HEADER.size:
        raise StorageError(f"{path}: {count} producers do not take {len(data) - _HEADER.size} bytes")
    return list(_ENTRY.iter_unpack(data[_HEADER.size :]))


def load_producer_snapshot(path: str, data: bytes, producers: ProducerStates) -> None:
    """Record what the file says.  Raises StorageError, naming the file and recording nothing, unless it is whole."""
    for producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, *_ in decode_producer_snapshot(
        path, data
    ):
        base_sequence = (last_sequence - offset_delta) % 2**31
        producers.record(producer_id, epoch, base_sequence, last_offset - offset_delta, last_offset, timestamp_ms)


def write_known_good_point(disk: Disk, directory: str, offset: int, producers: ProducerStates) -> None:
    """Note that the log has been synced up to its end, `offset` (exclusive), and remove older notes.

    The note itself is not durable.  Without it, the next open checks more of the log.  Raises OSError.
    """
    disk.replace_now(_path(directory, offset), encode_producer_snapshot(producers), durable=False)
    names = disk.list_directory(directory)
    for older in partition_files.offsets_of(names, partition_files.PRODUCER_SNAPSHOT):
        if older < offset:
            disk.remove(_path(directory, older))


def forget_known_good_points_above(disk: Disk, directory: str, offset: int) -> None:
    """Remove the notes above `offset`, where the log is about to be cut.

    If there are any, blocks for an fsync, because they must be gone before the log changes.  Raises OSError.
    """
    names = disk.list_directory(directory)
    above = [o for o in partition_files.offsets_of(names, partition_files.PRODUCER_SNAPSHOT) if o > offset]
    for stale in above:
        disk.remove(_path(directory, stale))
    if above:
        disk.sync_directory(directory)


def load_known_good_point(disk: Disk, directory: str, log_start_offset: int) -> int:
    """Return the offset of the last known good point, or the start of the log.  Raises OSError."""
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


def _path(directory: str, offset: int) -> str:
    return join(directory, partition_files.offset_file_name(offset, partition_files.PRODUCER_SNAPSHOT))
