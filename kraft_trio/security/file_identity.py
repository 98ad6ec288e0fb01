"""Tells whether a file has changed, without reading it."""

from __future__ import annotations

import os


def file_identity(path: str) -> object:
    """What changes when the file changes, or who may read it.  None without a path."""
    if not path:
        return None
    try:
        status = os.stat(path)
    except OSError as error:
        return error.errno
    return status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode, status.st_uid, status.st_gid
