"""A path for what only a library that reads files shall see: in memory if the system has such files."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """A path under which a library can read the content; on disk, only this user may read it."""
    if sys.platform == "linux" and hasattr(os, "memfd_create"):
        with open(os.memfd_create("keystore", os.MFD_CLOEXEC), "wb", buffering=0) as file:
            file.write(content)
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
