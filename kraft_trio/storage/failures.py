"""What an OSError of the disk is to the node: a failure, or a disk that is full."""

from __future__ import annotations

import errno
from typing import Final

from kraft_trio.errors import DiskFullError, StorageFailure

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an OSError says that there is no room left, on the disk or in a quota."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def is_out_of_descriptors(error: BaseException | None) -> bool:
    """Whether an OSError says that the process or the machine can open no more files now; the disk is well."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS


def storage_failure(what: str, error: BaseException) -> StorageFailure:
    """The error to raise where `what`, a sentence that names the file, failed with an OSError."""
    if is_disk_full(error):
        return disk_full_error(what, error)
    return StorageFailure(f"{what}: {error}")


def disk_full_error(what: str, error: BaseException) -> DiskFullError:
    """See `storage_failure`; for an error that `is_disk_full`."""
    return DiskFullError(
        f"{what}: {error}; free space on that file system or enlarge it, then start the node again: nothing that was "
        "acknowledged is lost"
    )
