"""Files by path, or by URL through fsspec."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Mapping
from typing import IO, Any, Protocol, cast

import attrs

from kraft_trio.errors import ConfigError

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


def files_of(path: str) -> Files:
    """The file system for a path or URL.  Raises ConfigError if a required package is missing."""
    return UrlFiles.of(path) if "://" in path else LocalFiles()


def read_all(files: Files, path: str) -> bytes:
    """Raises OSError."""
    with files.open(path) as file:
        return file.read()


def printable(path: str) -> str:
    """The path as printable text, because file names need not be UTF-8."""
    return path if path.isascii() else path.encode("utf-8", "backslashreplace").decode()


def join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/') or '/'}/{name}" if directory != "/" else f"/{name}"


def has_wildcard(path: str) -> bool:
    return not _GLOB_CHARACTERS.isdisjoint(path)


class LocalFiles:
    """See `Files`."""

    def expand(self, pattern: str) -> list[str]:
        is_glob = has_wildcard(pattern) and not os.path.lexists(pattern)
        found = sorted(glob.glob(pattern)) if is_glob else [pattern]
        return [path.rstrip("/") or "/" for path in found]

    def identity(self, path: str) -> str:
        return os.path.realpath(path)

    def entry(self, path: str) -> Entry:
        status = os.stat(path)
        is_directory = stat.S_ISDIR(status.st_mode)
        return Entry(os.path.basename(path), is_directory, 0 if is_directory else status.st_size)

    def entries(self, directory: str) -> list[Entry]:
        with os.scandir(directory) as found:
            return sorted((self._entry(entry) for entry in found), key=lambda entry: entry.name)

    @staticmethod
    def _entry(entry: os.DirEntry[str]) -> Entry:
        try:
            is_directory = entry.is_dir()
            return Entry(entry.name, is_directory, 0 if is_directory else entry.stat().st_size)
        except OSError:
            # A broken or circular link: opening it reports the problem.
            return Entry(entry.name, False, 0)

    def open(self, path: str) -> IO[bytes]:
        return open(path, "rb", buffering=0)


@attrs.frozen
class UrlFiles:
    """See `Files`.  All paths are URLs of one scheme."""

    _system: Any

    @classmethod
    def of(cls, url: str) -> UrlFiles:
        try:
            import fsspec

            system, _ = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise ConfigError(f"path {url}: cannot be read without another package: {error}") from None
        except ValueError as error:
            raise ConfigError(f"path {url}: {error}") from None
        return cls(system)

    def expand(self, pattern: str) -> list[str]:
        if not has_wildcard(pattern):
            return [pattern.rstrip("/")]
        return sorted(self._system.unstrip_protocol(path).rstrip("/") for path in self._system.glob(pattern))

    def identity(self, path: str) -> str:
        return path.rstrip("/")

    def entries(self, directory: str) -> list[Entry]:
        # Make data visible that another process has just written.
        self._system.invalidate_cache()
        entries = map(self._entry, self._system.ls(directory, detail=True))
        return sorted(entries, key=lambda entry: entry.name)

    def entry(self, path: str) -> Entry:
        self._system.invalidate_cache()
        return self._entry(self._system.info(path))

    @staticmethod
    def _entry(info: Mapping[str, Any]) -> Entry:
        return Entry(info["name"].rstrip("/").rpartition("/")[2], info["type"] == "directory", info["size"] or 0)

    def open(self, path: str) -> IO[bytes]:
        return cast(IO[bytes], self._system.open(path, "rb"))

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Write a file, which gets its name when it is complete; creates the folder, but no bucket.  Raises OSError."""
        path = self._system._strip_protocol(folder)
        bucket = path.partition("/")[0]
        if bucket and not self._system.exists(bucket):
            raise FileNotFoundError(errno.ENOENT, f"there is no bucket {bucket}", folder)
        self._system.makedirs(folder, exist_ok=True)
        hidden = f"{folder.rstrip('/')}/.{name}"
        self._system.pipe_file(hidden, content)
        self._system.mv(hidden, f"{folder.rstrip('/')}/{name}")
