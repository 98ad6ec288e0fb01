"""Checks quorum-state against the log at start, so that no vote is forgotten or invented.

The log itself has been checked, and its derived files have been rebuilt.  quorum-state cannot be rebuilt: no other file
has the vote.
"""

from __future__ import annotations

from kraft_trio.errors import StorageError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.storage.directory.quorum_state import REPLACE_IT, VOTE_LOST
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, join

log = get_logger(__name__)


def refuse_missing_quorum_state(disk: Disk, directory: str) -> None:
    """Raise StorageError if a directory without quorum-state has records, in its log or in a snapshot.

    quorum-state is written before the first record.  So it has been lost, and perhaps a vote with it.
    """
    try:
        names = disk.list_directory(directory)
    except FileNotFoundError:
        return
    for offset in partition_files.offsets_of(names, partition_files.LOG):
        path = join(directory, partition_files.offset_file_name(offset, partition_files.LOG))
        file = disk.open_to_read(path)
        try:
            size = file.size()
        finally:
            file.close()
        if size:
            raise _vote_lost(directory, f"{path}, which has {size} bytes")
    for snapshot_id in partition_files.checkpoint_ids(names):
        if snapshot_id.offset > 0:
            raise _vote_lost(directory, join(directory, partition_files.checkpoint_name(snapshot_id)))


def _vote_lost(directory: str, beside: str) -> StorageError:
    return StorageError(
        f"{join(directory, partition_files.QUORUM_STATE)}: missing, expected next to {beside}: what this node has "
        f"voted for is forgotten; {VOTE_LOST}"
    )


def check_quorum_state(path: str, state: ElectionState, key: ReplicaKey, log_end: OffsetAndEpoch) -> None:
    """Raise StorageError for a state that the replica `key` cannot have stored.

    A state older than the log is accepted.  The replica is then in the log's epoch, in which no candidate but the
    leader that sent these records has a log as long as its own.
    """
    if state.leader_id == key.id and state.voted_key is not None and state.voted_key.id != key.id:
        raise StorageError(
            f"{path}: leaderId {state.leader_id}, which is this node, with votedId {state.voted_key.id}: a leader has "
            f"voted for itself, expected {key.id} or -1; {REPLACE_IT}"
        )
    if state.epoch < log_end.epoch:
        log.warning(
            "quorum-state is older than the log",
            file=path,
            leader_epoch=state.epoch,
            expected=f"{log_end.epoch} or more, the epoch in which the log ends",
        )
