"""Files by URL, through fsspec.  Whatever a file system raises becomes an OSError with a message of one line."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import SEEK_SET, RawIOBase
from typing import IO, Any, Final, cast

import attrs

from kraft_trio.errors import ConfigError
from kraft_trio.spark.file_system import REQUESTS_AT_A_TIME, Entry, has_wildcard

_NUMBERS: Final[Mapping[type[OSError], int]] = {
    FileNotFoundError: errno.ENOENT,
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
}
"""Errors whose name says everything; what a server adds may be a stack trace."""
_WEB_HDFS: Final = "webhdfs://"
_kept: set[Any] = set()
"""The file systems in use.  When a process forks, as Spark does to start Java, fsspec forgets them in the child.

If that were the last reference to one of hdfs-native, the child would wait forever for threads that it does not have.
"""


@attrs.frozen
class UrlFiles:
    """See `Files`.  All paths are URLs with the same scheme and host."""

    _system: Any
    _before: str
    """What comes before the file system's own paths in a URL: the scheme, and the host unless that is a bucket.

    fsspec's `unstrip_protocol` leaves the host out for some file systems.
    """

    @classmethod
    def of(cls, url: str) -> UrlFiles:
        """Raises ConfigError."""
        try:
            import fsspec

            system, _ = fsspec.core.url_to_fs(url, **_options(url, fsspec.config.conf))
        except ImportError as error:
            raise ConfigError(f"path {url}: cannot be read without another package: {error}") from None
        except ValueError as error:
            raise ConfigError(f"path {url}: {error}") from None
        except (OSError, TypeError) as error:
            # Hadoop's client cannot be loaded, or the URL has no host.
            raise ConfigError(f"path {url}: {_first_line(error)}") from None
        if url.startswith(_WEB_HDFS):
            _heed_data_nodes(system)
        _kept.add(system)
        return cls(system, _before(system, url))

    def expand(self, pattern: str) -> list[str]:
        if not has_wildcard(pattern):
            return [pattern.rstrip("/")]
        with _as_os_error(pattern):
            found = self._system.glob(self._path(pattern))
        return sorted(self._before + path.rstrip("/") for path in found)

    def _path(self, url: str) -> str:
        return url.removeprefix(self._before) or "/"

    def identity(self, path: str) -> str:
        return path.rstrip("/")

    def entries(self, directory: str) -> list[Entry]:
        # Make data visible that another process has just written.
        self._system.invalidate_cache()
        with _as_os_error(directory):
            entries = [self._entry(info) for info in self._system.ls(self._path(directory), detail=True)]
        return sorted(entries, key=lambda entry: entry.name)

    def entry(self, path: str) -> Entry:
        self._system.invalidate_cache()
        with _as_os_error(path):
            return self._entry(self._system.info(self._path(path)))

    @staticmethod
    def _entry(info: Mapping[str, Any]) -> Entry:
        return Entry(info["name"].rstrip("/").rpartition("/")[2], info["type"] == "directory", info["size"] or 0)

    def open(self, path: str) -> IO[bytes]:
        with _as_os_error(path):
            return cast(IO[bytes], _UrlFile(path, self._system.open(self._path(path), "rb")))

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Write a new file, which gets its name when it is complete; creates the folder, but no bucket.

        Raises OSError.
        """
        path = self._path(folder).rstrip("/")
        bucket = path.partition("/")[0]
        with _as_os_error(folder):
            if bucket and not self._system.exists(bucket):
                raise FileNotFoundError(errno.ENOENT, f"there is no bucket {bucket}", folder)
            self._system.makedirs(path, exist_ok=True)
            self._system.pipe_file(f"{path}/.{name}", content)
            self._system.mv(f"{path}/.{name}", f"{path}/{name}")
            # WebHDFS reports a failed renaming in an answer that fsspec passes over.
            self._system.invalidate_cache()
            if not self._system.exists(f"{path}/{name}"):
                raise OSError(errno.EIO, f"{name} cannot be given its name", folder)


class _UrlFile(RawIOBase):
    """A file open for reading, which behaves as Python's own do."""

    def __init__(self, path: str, file: Any) -> None:
        super().__init__()
        self._path, self._file = path, file

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        # hdfs-native does not tell where it has gone.
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int = -1) -> bytes:
        with _as_os_error(self._path):
            return bytes(self._file.read(size))

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _options(url: str, configured: Mapping[str, Any]) -> dict[str, Any]:
    """Options in addition to those that the user has configured: by default, s3fs asks for ten things at a time at
    most."""
    schemes = ("s3", "s3a")
    if url.partition("://")[0] not in schemes:
        return {}
    of_user = [configured.get(scheme, {}).get("config_kwargs", {}) for scheme in schemes]
    return {"config_kwargs": {"max_pool_connections": REQUESTS_AT_A_TIME, **of_user[0], **of_user[1]}}


def _before(system: Any, url: str) -> str:
    scheme, _, rest = url.partition("://")
    probe = f"{scheme}://{rest.partition('/')[0]}/x"
    path: str = system._strip_protocol(probe)
    return probe.removesuffix(path) if probe.endswith(path) else ""


def _heed_data_nodes(system: Any) -> None:
    """Let WebHDFS fail if a data node answers with an error, which fsspec would take for the bytes of the file."""

    def check(response: Any, **_options: Any) -> None:
        if not response.url.startswith(system.url):
            response.raise_for_status()

    system.session.hooks["response"] = [check]


@contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.strerror is not None:
            raise
        kind = type(error) if type(error) in _NUMBERS or isinstance(error, PermissionError) else OSError
        number = _NUMBERS.get(type(error))
        text = _first_line(error) if number is None else os.strerror(number)
        raise kind(number or errno.EIO, text, path) from error
    except (RuntimeError, ValueError) as error:
        raise OSError(errno.EIO, _first_line(error), path) from error


def _first_line(error: Exception) -> str:
    """Its message without a stack trace, which may be part of a quoted text."""
    lines = str(error).partition(r"\n")[0].splitlines()
    return lines[0] if lines else type(error).__name__
