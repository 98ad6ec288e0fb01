"""What quorum-state says against the log beside it, at start: a vote must neither be forgotten nor made up.

The log comes first: it is checked by itself.  Of what follows from it alone, leader epochs and indexes, whatever else
they say is put right.  What quorum-state says nobody else can tell.
"""

from __future__ import annotations

import structlog

from kraft_trio.errors import StorageError
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.storage import partition_files
from kraft_trio.storage.disk import Disk, join

log = structlog.get_logger(__name__)

REPLACE_IT = "replace this voter as if its disk were lost: a new directory id"


def refuse_missing_quorum_state(disk: Disk, directory: str) -> None:
    """There is no quorum-state in a partition's directory.  Raises StorageError where its log has records.

    It is written before the first record, so that there was one, and perhaps a vote in it.
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
            raise StorageError(
                f"{join(directory, partition_files.QUORUM_STATE)}: missing, expected beside {path}, which has {size} "
                f"bytes: what this node has voted for is forgotten; {REPLACE_IT}"
            )


def check_quorum_state(path: str, state: ElectionState, key: ReplicaKey, log_end: OffsetAndEpoch) -> None:
    """Raises StorageError for a state that the replica `key` cannot have stored.

    One that is older than the log is taken all the same: the replica is in the log's epoch then, in which only the
    leader that it has these records from has a log as long as its own.
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
