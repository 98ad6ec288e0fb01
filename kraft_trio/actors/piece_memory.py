"""Memory that a leader reads the pieces of snapshots into, again and again: new pages cost as much as the reading."""

from __future__ import annotations

from typing import Final

from kraft_trio.storage.disk import DiskFile

MAX_KEPT: Final = 4
"""Pieces that are on their way at the same time, for which memory is kept; those above that have their own."""


class PieceMemory:
    """Owned by one SnapshotServer.  What it gives is whole for as long as anybody holds it.

    A piece may wait, for as long as a peer likes, in a frame that is half sent.  Its memory is used again once no view
    of it is left: a bytearray of which there is one cannot change its length.
    """

    def __init__(self, piece_bytes: int) -> None:
        """Memory is kept for pieces of that size, the usual one."""
        self._piece_bytes = piece_bytes
        self._kept: list[bytearray] = []

    def read(self, file: DiskFile, position: int, size: int) -> bytes | memoryview:
        """Up to `size` bytes from `position`; fewer only where the file ends.  Raises OSError."""
        memory = self._unused() if size == self._piece_bytes else None
        if memory is None:
            return file.read_at(position, size)
        view = memoryview(memory)
        return view[: file.read_into(position, view)]

    def _unused(self) -> bytearray | None:
        for memory in self._kept:
            if not _has_views(memory):
                return memory
        if len(self._kept) >= MAX_KEPT:
            return None
        self._kept.append(bytearray(self._piece_bytes))
        return self._kept[-1]


def _has_views(memory: bytearray) -> bool:
    try:
        memory.append(0)
    except BufferError:
        return True
    del memory[-1]
    return False
