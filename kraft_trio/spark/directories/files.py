"""Files by path, or by URL: see `url_files`."""

from __future__ import annotations

import errno
import glob
import os
import stat
from typing import IO

from kraft_trio.spark.file_system import Entry, Files, has_wildcard


def files_of(path: str) -> Files:
    """The file system for a path or URL.  Raises ConfigError if a package is missing, or the URL is wrong."""
    if "://" not in path:
        return LocalFiles()
    from kraft_trio.spark.directories.url_files import UrlFiles

    return UrlFiles.of(path)


def read_all(files: Files, path: str) -> bytes:
    """Raises OSError."""
    with files.open(path) as file:
        return file.read()


def join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/') or '/'}/{name}" if directory != "/" else f"/{name}"


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
        return open(path, "rb", buffering=0, opener=_open_file)


def _open_file(path: str, flags: int) -> int:
    """Like `os.open`, but OSError for what is no file.  A pipe would wait for its writer for ever."""
    found = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(found).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # `open` refuses a directory.
        return found
    os.close(found)
    raise OSError(errno.EINVAL, "a device or a pipe, expected a file", path)
