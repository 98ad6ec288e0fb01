"""Whether a directory is one of Apache Kafka's controllers or brokers: what they and `kafka-storage.sh` write tells.

Nothing is locked or changed.  What cannot be read says nothing here: who opens the directory finds that out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Final

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import decode_record, record_bytes
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, BatchHeader, check_crc, peek_header
from kraft_trio.storage.directory.directory import partition_path
from kraft_trio.storage.disk.disk import Disk, DiskFile, join
from kraft_trio.storage.disk.partition_files import LOG, checkpoint_ids, checkpoint_name, offset_file_name, offsets_of
from kraft_trio.wire.metadata_frame import MetadataFrame, decode_metadata_frame

BOOTSTRAP: Final = "bootstrap.checkpoint"
"""The first metadata records, which `kafka-storage.sh format` writes up to Kafka 4.3 (KIP-1170)."""
OF_BROKERS: Final = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
"""Files of Kafka's LogManager, which a broker has and a controller has not."""
_MOST_BATCHES: Final = 1000
"""Control batches at the start of a file that are passed over."""
_MOST_BYTES: Final = 16 * 1024 * 1024
"""Kafka's largest batch of metadata records has 8 MiB."""


def trace_of_kafka(disk: Disk, directory: str, topic_name: str, *, may_observe: bool) -> str | None:
    """What says that the directory is Kafka's, in words that begin with a path; None if nothing does.

    An observer of ours has the metadata records (KIP-631) of the controllers in its log and snapshots, too.  With
    `may_observe` they tell nothing, but what Kafka alone writes does.
    """
    try:
        names = set(disk.list_directory(directory))
        for name in (BOOTSTRAP, *OF_BROKERS):
            if name in names:
                return f"{join(directory, name)}: a file of Apache Kafka's"
        return None if may_observe else _of_records(disk, partition_path(directory, topic_name))
    except OSError:
        return None


def _of_records(disk: Disk, partition: str) -> str | None:
    """The newest snapshots come first: with one, the log may have no records yet."""
    names = disk.list_directory(partition)
    snapshots = [checkpoint_name(snapshot_id) for snapshot_id in reversed(checkpoint_ids(names))]
    segments = [offset_file_name(offset, LOG) for offset in offsets_of(names, LOG)]
    for path in (join(partition, name) for name in (*snapshots, *segments)):
        with closing(disk.open_to_read(path)) as file:
            found = _first_record(file)
        if found is not None:
            value, offset = found
            frame = _metadata_frame(value)
            return None if frame is None else f"{path}: a metadata record of Apache Kafka's, {frame.name} at {offset}"
    return None


def _first_record(file: DiskFile) -> tuple[bytes | None, int] | None:
    """Value and offset of the first record that is no control record; None if there is none, or it is damaged."""
    try:
        for position, header in islice(_batches(file), _MOST_BATCHES):
            if not header.is_control and header.record_count:
                if header.size_in_bytes > _MOST_BYTES:
                    return None
                batch = file.read_at(position, header.size_in_bytes)
                check_crc(batch, 0, header)
                data, at = record_bytes(bytes(batch), 0, header, _MOST_BYTES)
                return decode_record(data, at, header)[0].value, header.base_offset
    except ProtocolError:
        pass
    return None


def _batches(file: DiskFile) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while position < file.size():
        header = peek_header(file.read_at(position, HEADER_BYTES), named_position=position)
        yield position, header
        position += header.size_in_bytes


def _metadata_frame(value: bytes | None) -> MetadataFrame | None:
    """The record, if its frame and all of its fields are those of a metadata record."""
    try:
        frame = decode_metadata_frame(value or b"")
        frame.fields()
    except ProtocolError:
        return None
    return frame
