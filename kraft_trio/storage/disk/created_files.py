"""How every file that we write is made: its name is never a link to somewhere else, and strangers cannot read it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from kraft_trio.system.descriptors import OF_ITS_OWN

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
READABLE_MODE: Final = 0o640
"""Of a file that says nothing secret, and that a group may be allowed to read."""


def open_own(path: str, flags: int, mode: int = FILE_MODE) -> int:
    """Like `os.open`, for a file that is written: OSError (ELOOP) if the name is a symbolic link."""
    try:
        return os.open(path, flags | OF_ITS_OWN, mode)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise OSError(errno.ELOOP, "a symbolic link, which is not written through", path) from None
        raise


def write_own_text(path: Path, text: str) -> None:
    """Give a file that text.  Raises OSError, as `open_own` does."""
    with open(path, "w", encoding="utf-8", opener=open_own) as file:
        file.write(text)
