"""The names of the files in a partition's directory, and of the snapshots among them."""

from __future__ import annotations

import re

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk import Disk, join

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
    matches = (_CHECKPOINT_NAME.fullmatch(name) for name in names)
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
