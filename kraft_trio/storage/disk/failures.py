"""Tells a full disk, a lack of file descriptors and a failed disk apart."""

from __future__ import annotations

import errno
from typing import Final

from kraft_trio.errors import DiskFullError, StorageFailure

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_disk_full(error: BaseException | None) -> bool:
    """Whether the disk or a quota has no room left."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def is_out_of_descriptors(error: BaseException | None) -> bool:
    """Whether the process or the machine cannot open another file now.  The disk itself is fine."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS


def storage_failure(what: str, error: BaseException) -> StorageFailure:
    """Return the error to raise for an OSError.  `what` names the file and what failed."""
    if is_disk_full(error):
        return disk_full_error(what, error)
    return StorageFailure(f"{what}: {error}")


def disk_full_error(what: str, error: BaseException) -> DiskFullError:
    """Like `storage_failure`, for an error that `is_disk_full`."""
    return DiskFullError(
        f"{what}: {error}; free space on that file system or enlarge it, then start the node again: nothing that was "
        "acknowledged is lost"
    )
