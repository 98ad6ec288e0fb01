"""What the sources need of a file system: see `directories.files` and `directories.url_files`."""

from __future__ import annotations

from typing import IO, Final, Protocol

import attrs

REQUESTS_AT_A_TIME: Final = 32
"""Directories listed at a time.  Spark runs a source's planner in a process without a session, which can start no job.
It mostly waits for the file system: an object store takes about 50 ms for an answer.
"""
_GLOB_CHARACTERS = frozenset("*?[")


@attrs.frozen
class Entry:
    """An entry of a directory."""

    name: str
    is_directory: bool
    size: int
    """Size of a file in bytes."""


class Files(Protocol):
    """A file system for reading.  All calls raise OSError."""

    def expand(self, pattern: str) -> list[str]:
        """The paths that match a glob, sorted.  A path without wildcards matches itself, even if it does not exist."""
        ...

    def identity(self, path: str) -> str:
        """A value that is equal for all paths that lead to the same place."""
        ...

    def entry(self, path: str) -> Entry:
        """The kind of thing that a path leads to."""
        ...

    def entries(self, directory: str) -> list[Entry]:
        """The entries of a directory, sorted by name."""
        ...

    def open(self, path: str) -> IO[bytes]: ...


def has_wildcard(path: str) -> bool:
    return not _GLOB_CHARACTERS.isdisjoint(path)


def printable(path: str) -> str:
    """The path as printable text, because file names need not be UTF-8."""
    return path if path.isascii() else path.encode("utf-8", "backslashreplace").decode()
