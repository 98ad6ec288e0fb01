"""Where the bytes of a segment or a snapshot come from: a file, an object in a store, or memory."""

from __future__ import annotations

from typing import IO, Protocol

import attrs


class ByteSource(Protocol):
    """Read anywhere, by one reader; whoever opened it closes it."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """In bytes, as it was when it was opened."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only where it ends.  Raises OSError."""
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
    """See `ByteSource`; over any file that seeks."""

    path: str
    size: int
    _file: IO[bytes]

    def read_at(self, position: int, size: int) -> bytes:
        self._file.seek(position)
        return self._file.read(size)
