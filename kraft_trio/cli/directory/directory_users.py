"""Finds a process that writes to a directory although nobody holds the lock, such as after somebody removed `.lock`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from kraft_trio.errors import AlreadyLockedError
from kraft_trio.storage.disk.real_lock import command_of

_DELETED: Final = " (deleted)"


def refuse_used(directory: str) -> None:
    """Raise AlreadyLockedError, which names process and file, if another process may write to a file below.

    Linux tells the files of the processes of this user, or of all processes to root.  Readers do no harm.
    """
    below = os.path.join(os.path.realpath(directory), "")
    for process_id in _other_processes():
        for descriptor, path in _open_files(process_id):
            if path.startswith(below) and _writes(process_id, descriptor):
                command = command_of(process_id)
                who = f"process {process_id}" + ("" if command is None else f" ({command})")
                raise AlreadyLockedError(f"{path}: {who} has it open for writing: stop that process first")


def _other_processes() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit() and int(name) != os.getpid())


def _open_files(process_id: int) -> Iterator[tuple[str, str]]:
    folder = f"/proc/{process_id}/fd"
    try:
        for descriptor in os.listdir(folder):
            yield descriptor, os.readlink(f"{folder}/{descriptor}").removesuffix(_DELETED)
    except OSError:  # it has ended, or is another user's
        return


def _writes(process_id: int, descriptor: str) -> bool:
    try:
        with open(f"/proc/{process_id}/fdinfo/{descriptor}", encoding="ascii", errors="replace") as file:
            fields = dict(line.split(maxsplit=1) for line in file if line.startswith("flags:"))
    except OSError:
        return False
    return int(fields.get("flags:", "0"), 8) & os.O_ACCMODE != os.O_RDONLY
