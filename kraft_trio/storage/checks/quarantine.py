"""The file `damaged`: a read has found damage in this log.

Opening a log does not read all of it.  Without this file, a node could start, lead, and end again at each read of the
damage.  If the file exists, the next start reads the whole log, and is refused while anything is wrong.
"""

from __future__ import annotations

from kraft_trio.errors import CorruptLogError, StorageError
from kraft_trio.logs import get_logger
from kraft_trio.storage.checks.partition_check import check_partition
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.failures import storage_failure
from kraft_trio.storage.disk.partition_files import DAMAGED

log = get_logger(__name__)

WHAT_TO_DO = (
    "keep the directory for inspection (kraft log verify), replace the disk, and put a new incarnation of this node in "
    "its place (kraft metadata-quorum replace), or put back an exact copy of the file made since the node last stopped"
)


def note_damage(disk: Disk, directory: str, reason: str) -> None:
    """Write the file durably.  Blocks for fsyncs.  Only logs an OSError: the node ends in any case."""
    try:
        disk.replace_now(join(directory, DAMAGED), f"{reason}\n".encode())
    except OSError as error:
        log.error("the damage cannot be noted", directory=directory, reason=str(error))


def refuse_damaged(disk: Disk, directory: str, *, forgets_mended: bool = True) -> None:
    """Raise CorruptLogError if a read found damage that is still there.

    If the log is whole, the file is removed if `forgets_mended`.  Reads the whole log, and blocks, only if the file
    exists.  Raises StorageFailure if the disk fails.
    """
    path = join(directory, DAMAGED)
    try:
        noted = disk.read_bytes(path).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        problems = check_partition(disk, directory).problems
        if not problems and forgets_mended:
            log.warning("the damage that a read found is mended", file=path, was=noted)
            disk.remove(path)
            disk.sync_directory(directory)
    except OSError as error:
        raise storage_failure(f"{path}: the log cannot be checked for what a read found", error) from error
    if problems:
        raise CorruptLogError(f"{path}: a read found damage: {noted}; it is still there: {problems[0]}; {WHAT_TO_DO}")
