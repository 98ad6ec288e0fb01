"""The names of the files in a partition's directory, and of the snapshots among them."""

from __future__ import annotations

import re
from uuid import UUID

from kraft_trio.errors import StorageError
from kraft_trio.protocol.types import OffsetAndEpoch, directory_id_from_text, directory_id_to_text
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.unreadable import blank_text, shown

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
PRODUCER_SNAPSHOT = ".snapshot"
CHECKPOINT = ".checkpoint"
QUORUM_STATE = "quorum-state"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
RECOVERY_POINT = "recovery-point"
REMOVED_VOTER = "removed-voter"
DAMAGED = "damaged"
BOOTSTRAP_CHECKPOINT = "00000000000000000000-0000000000.checkpoint"

_OFFSET_NAME = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.snapshot)")
_CHECKPOINT_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
DELETED = ".deleted"
"""Behind the name of a file that nothing refers to any more, and that is yet to be removed."""
_LEFTOVER = re.compile(r".*\.checkpoint\.part.*|.*\.(checkpoint|log|index|timeindex|snapshot)\.deleted|.*\.tmp")


def offset_file_name(offset: int, suffix: str) -> str:
    """The name of a file that belongs to an offset: a segment by its first, a producer snapshot by its end."""
    return f"{offset:020d}{suffix}"


def offsets_of(names: list[str], suffix: str) -> list[int]:
    """The offsets of the files with this suffix, ascending."""
    matches = (_OFFSET_NAME.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in matches if match is not None and match[2] == suffix)


def checkpoint_name(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{CHECKPOINT}"


def checkpoint_ids(names: list[str]) -> list[OffsetAndEpoch]:
    """The ids of the snapshots, ascending, that of the bootstrap checkpoint included."""
    matches = [_CHECKPOINT_NAME.fullmatch(name) for name in names if name.endswith(CHECKPOINT)]
    return sorted(OffsetAndEpoch(int(match[1]), int(match[2])) for match in matches if match is not None)


def retire(disk: Disk, directory: str, name: str) -> str:
    """Rename a file, durably, to what the next open removes; the new path.  Blocks for a directory fsync.

    A large file takes long to be removed; its name is gone at once, and by one step that a crash makes whole or not.
    """
    path = join(directory, name)
    disk.rename(path, path + DELETED)
    disk.sync_directory(directory)
    return path + DELETED


def is_leftover(name: str) -> bool:
    """Whether a file is what an interrupted write or delete left behind; nothing refers to it."""
    return _LEFTOVER.fullmatch(name) is not None


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {directory_id_to_text(topic_id)}".encode()


def decode_partition_metadata(path: str, data: bytes) -> UUID:
    """Return the topic id from the content of `partition.metadata`.  Raises StorageError, naming file and field."""
    blank = blank_text(data)
    if blank is not None:
        raise StorageError(
            f"{path}: {blank}, expected version: 0 and topic_id; remove it, and the next start writes it"
        )
    fields: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip()] = value.strip()
    if fields.get("version") != "0":
        raise StorageError(f"{path}: version {shown(fields.get('version', ''))}, expected 0")
    try:
        return directory_id_from_text(fields.get("topic_id", ""))
    except ValueError as error:
        raise StorageError(f"{path}: topic_id: {error}") from None
