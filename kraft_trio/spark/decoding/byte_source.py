"""Where a segment's or snapshot's bytes come from: a file, an object store, or memory."""

from __future__ import annotations

from typing import IO, Protocol

import attrs


class ByteSource(Protocol):
    """Random access for one reader.  The code that opened it closes it."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Size in bytes when it was opened."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end.  Raises OSError.

        Beyond `size` is what has been written since.
        """
        ...


@attrs.frozen
class MemorySource:
    """See `ByteSource`."""

    path: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]


@attrs.frozen
class FileSource:
    """See `ByteSource`; for any seekable file."""

    path: str
    size: int
    _file: IO[bytes]

    def read_at(self, position: int, size: int) -> bytes:
        self._file.seek(position)
        return self._file.read(size)
