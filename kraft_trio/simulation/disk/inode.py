"""One file of the simulated disk: what readers see, what is durable, and what a crash leaves of the difference."""

from __future__ import annotations

import random
from typing import Literal

import attrs

from kraft_trio.storage.disk.created_files import FILE_MODE
from kraft_trio.storage.disk.disk import SECTOR_BYTES, Buffer

Loss = Literal["all", "some", "reordered"]
"""What a crash loses of the unsynced data.

- "all": everything.
- "some": everything after a random moment, as if changes reach the device in order; the write at that moment may be
  torn.
- "reordered": any sectors of files and any changes of names, as if a cache writes back in its own order.  A file may
  keep its new size without the new bytes, which are then zeros.
"""


@attrs.frozen
class _Write:
    position: int
    data: bytes


@attrs.frozen
class _Truncate:
    size: int


_Change = _Write | _Truncate


class Inode:
    """The content of a file, and its changes since the last sync, in order."""

    __slots__ = ("_changes_settled", "_unsynced", "content", "durable", "mode", "modified_ms")

    def __init__(self, mode: int = FILE_MODE) -> None:
        self.mode = mode
        self.modified_ms = 0
        self.content = bytearray()
        """The content that readers see."""
        self.durable = bytearray()
        """The content after a crash that loses everything unsynced."""
        self._unsynced: list[_Change] = []
        self._changes_settled = 0

    @property
    def changes_made(self) -> int:
        """The number of changes so far, up to which a later `settle` may make them durable."""
        return self._changes_settled + len(self._unsynced)

    def write(self, position: int, data: Buffer) -> None:
        """Write over existing bytes or beyond the end; zeros fill a gap."""
        change = _Write(position, bytes(data))
        self._unsynced.append(change)
        _apply(self.content, change)

    def truncate(self, size: int) -> None:
        self._unsynced.append(_Truncate(size))
        del self.content[size:]

    def allocate(self, size: int) -> None:
        """Extend the file to that size with zeros that survive a crash.  It must have no unsynced changes."""
        assert not self._unsynced
        self.content.extend(bytes(max(0, size - len(self.content))))
        self.durable = self.content[:]

    def settle(self, changes: int, *, lost: bool = False) -> None:
        """Make the first `changes` changes durable.

        With `lost` they are forgotten instead, as after a failed fsync.  Readers still see them, but no later sync
        writes them.  The exception is a sector with a later unsynced write, because a device writes whole sectors.
        """
        count = max(0, changes - self._changes_settled)
        settled, self._unsynced = self._unsynced[:count], self._unsynced[count:]
        self._changes_settled += len(settled)
        if lost:
            self._write_whole_sectors(settled)
            return
        for change in settled:
            _apply(self.durable, change)

    def forget_cached(self) -> None:
        """Let readers see what is durable, with the unsynced changes applied.

        The size stays, and bytes that a failed fsync lost read as zeros.
        """
        size = len(self.content)
        from_device = self.durable[:]
        for change in self._unsynced:
            _apply(from_device, change)
        self.content[:] = from_device[:size].ljust(size, b"\0")

    def crash(self, lose: Loss, source: random.Random) -> None:
        """Lose unsynced changes.  Readers then see what is durable."""
        if lose == "some":
            self._keep_prefix(source)
        elif lose == "reordered" and self._unsynced:
            self._keep_sectors(source)
        self._changes_settled += len(self._unsynced)
        self._unsynced = []
        self.content = self.durable[:]

    def damage(self, position: int, mask: int) -> None:
        """Flip bits of one byte, both for readers and in the durable content."""
        self.content[position] ^= mask
        if position < len(self.durable):
            self.durable[position] ^= mask

    def copy(self) -> Inode:
        """A copy of the file, with the same content durable."""
        other = Inode(self.mode)
        other.content = self.content[:]
        other.durable = self.durable[:]
        other._unsynced = self._unsynced[:]
        other._changes_settled = self._changes_settled
        return other

    def _write_whole_sectors(self, lost: list[_Change]) -> None:
        """Extend each unsynced write to whole sectors, because a device writes nothing smaller."""
        state = self.durable[:]
        for change in lost:
            _apply(state, change)
        for index, change in enumerate(self._unsynced):
            _apply(state, change)
            if isinstance(change, _Write) and change.data:
                start = change.position - change.position % SECTOR_BYTES
                end = change.position + len(change.data)
                end += -end % SECTOR_BYTES
                self._unsynced[index] = _Write(start, bytes(state[start:end]))

    def _keep_prefix(self, source: random.Random) -> None:
        kept = source.randint(0, len(self._unsynced))
        for change in self._unsynced[:kept]:
            _apply(self.durable, change)
        torn = self._unsynced[kept] if kept < len(self._unsynced) else None
        if isinstance(torn, _Write) and torn.data and source.random() < 0.7:
            length = source.randrange(len(torn.data))
            zeros = len(torn.data) - length if source.random() < 0.3 else 0
            _apply(self.durable, _Write(torn.position, torn.data[:length] + bytes(zeros)))

    def _keep_sectors(self, source: random.Random) -> None:
        """Each sector, and the size, is as it was after a random change, or before all of them.

        A random share of the sectors has all changes, so that whole writes may come after missing ones.
        """
        moments = len(self._unsynced)
        share = source.random()

        def moment_of() -> int:
            return moments if source.random() < share else source.randint(0, moments)

        state = self.durable[:]
        sectors_of: list[list[int]] = [[] for _ in range(moments + 1)]
        for sector in sorted(self._touched_sectors(len(state))):
            sectors_of[moment_of()].append(sector)
        size_moment = moment_of()
        kept: dict[int, bytes] = {}
        size = len(state)
        for moment in range(moments + 1):
            if moment:
                _apply(state, self._unsynced[moment - 1])
            for sector in sectors_of[moment]:
                kept[sector] = bytes(state[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])
            if moment == size_moment:
                size = len(state)
        found = self.durable
        for sector, data in kept.items():
            _apply(found, _Write(sector * SECTOR_BYTES, data.ljust(SECTOR_BYTES, b"\0")))
        del found[size:]
        found += bytes(size - len(found))

    def _touched_sectors(self, size: int) -> set[int]:
        touched: set[int] = set()
        for change in self._unsynced:
            if isinstance(change, _Write):
                start, end = min(change.position, size), change.position + len(change.data)
                size = max(size, end)
            else:
                start, end, size = change.size, size, change.size
            if end > start:
                touched.update(range(start // SECTOR_BYTES, (end - 1) // SECTOR_BYTES + 1))
        return touched


def _apply(content: bytearray, change: _Change) -> None:
    if isinstance(change, _Truncate):
        del content[change.size :]
        return
    if len(content) < change.position:
        content += bytes(change.position - len(content))
    content[change.position : change.position + len(change.data)] = change.data
