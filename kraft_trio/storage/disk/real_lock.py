"""The lock on a node's directory, which kraft-trio and Apache Kafka refuse each other, and the process that has it."""

from __future__ import annotations

import os
from typing import Final

from kraft_trio.errors import AlreadyLockedError, StorageError
from kraft_trio.forked import when_forked
from kraft_trio.system.file_locks import CANNOT_LOCK, holder, lock
from kraft_trio.system.processes import arguments_of

_SHOWN_CHARACTERS: Final = 120


class RealLock:
    """The operating system releases it when the process ends in any way."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        when_forked(self, RealLock.release)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def lock_file(path: str, descriptor: int) -> RealLock | None:
    """Take the lock of the open file `path`, and own its descriptor; close it if that fails.

    None if the path is no longer that file: Kafka deletes the file of a lock that it releases.  Raises
    AlreadyLockedError, which names the process if the system tells it, or StorageError if the file system has no locks.
    """
    try:
        try:
            lock(descriptor)
        except (BlockingIOError, PermissionError):  # either, says POSIX, of a record lock that is held
            raise AlreadyLockedError(
                f"{path}: the lock is held already{_by_whom(descriptor)}; one node at a time may use its directory"
            ) from None
        except OSError as error:
            if error.errno not in CANNOT_LOCK:
                raise
            raise StorageError(
                f"{path}: the file system cannot lock files ({error.strerror}); expected a local disk's"
            ) from error
        if not _is_at(path, descriptor):
            os.close(descriptor)
            return None
    except BaseException:
        os.close(descriptor)
        raise
    return RealLock(descriptor)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _by_whom(descriptor: int) -> str:
    process_id = holder(descriptor)
    if process_id is None:
        return ""
    if process_id == os.getpid():
        return " by this process"
    command = command_of(process_id)
    return f" by process {process_id}{'' if command is None else f' ({command})'}"


def command_of(process_id: int) -> str | None:
    """What runs in a process, in a few words; None if the system does not tell."""
    arguments = arguments_of(process_id)
    return None if not arguments else command_text(arguments)


def command_text(arguments: list[str]) -> str:
    """A command line without its options and settings, and so without class paths and passwords."""
    program, *rest = arguments
    words = [os.path.basename(program)]
    is_value = False
    for word in rest:
        if not word.startswith("-") and not is_value and "=" not in word:
            words.append(word)
        is_value = word in _WITH_VALUE
    text = " ".join(words)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


_WITH_VALUE: Final = frozenset({"-cp", "-classpath", "--class-path", "--module-path", "-p", "--override"})
"""Options of Java and `kraft` whose value does not tell what runs."""
