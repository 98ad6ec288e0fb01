"""Finds a process that writes to a directory although nobody holds the lock, such as after somebody removed `.lock`."""

from __future__ import annotations

import os

from kraft_trio.errors import AlreadyLockedError
from kraft_trio.storage.disk.real_lock import command_of
from kraft_trio.system.processes import written_files


def refuse_used(directory: str) -> None:
    """Raise AlreadyLockedError, which names process and file, if another process may write to a file below.

    Only Linux tells them: those of this user, or all to root.  Readers do no harm.
    """
    below = os.path.join(os.path.realpath(directory), "")
    for process_id, path in written_files():
        if path.startswith(below):
            command = command_of(process_id)
            who = f"process {process_id}" + ("" if command is None else f" ({command})")
            raise AlreadyLockedError(f"{path}: {who} has it open for writing: stop that process first")
