"""Finds a log in the node's directory that the node does not use, such as one that somebody renamed."""

from __future__ import annotations

from kraft_trio.errors import StorageError
from kraft_trio.logs import get_logger
from kraft_trio.storage.directory.directory import partition_path
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.failures import storage_failure
from kraft_trio.storage.disk.partition_files import QUORUM_STATE

log = get_logger(__name__)


def warn_of_other_logs(disk: Disk, directory: str, topic_name: str) -> None:
    """Log a warning for each other log of a quorum.

    Raises StorageError if the node's own log is missing next to one: it would start without its vote and its records.
    Raises StorageFailure if the directory cannot be listed.
    """
    own = partition_path(directory, topic_name)
    try:
        names = sorted(disk.list_directory(directory))
    except OSError as error:
        raise storage_failure(f"{directory}: cannot be listed", error) from error
    others = [path for name in names if _is_log(disk, path := join(directory, name))]
    for path in others:
        if path == own:
            continue
        if not disk.exists(own):
            raise StorageError(
                f"{own}: missing, but {path} holds a log: if it was renamed, rename it back; otherwise replace this "
                "voter as if its disk were lost"
            )
        log.warning("another log in the directory is ignored", directory=path, used=own)


def _is_log(disk: Disk, path: str) -> bool:
    """False for a file, and for a directory that cannot be read, such as lost+found."""
    try:
        return QUORUM_STATE in disk.list_directory(path)
    except OSError:
        return False
