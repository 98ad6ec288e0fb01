"""One file of the simulated disk: what a reader sees, what is durable, and what a crash makes of the difference."""

from __future__ import annotations

import random

import attrs

from kraft_trio.storage.disk import Buffer


@attrs.frozen
class _Write:
    position: int
    data: bytes


@attrs.frozen
class _Truncate:
    size: int


class Inode:
    """The content of a file, and the changes since its last sync, in order."""

    def __init__(self, mode: int = 0o644) -> None:
        self.mode = mode
        self.content = bytearray()
        self.durable = bytearray()
        self._unsynced: list[_Write | _Truncate] = []
        self._changes_settled = 0

    @property
    def changes_made(self) -> int:
        """How many changes the file has seen; a mark up to which a later `settle` reaches."""
        return self._changes_settled + len(self._unsynced)

    def append(self, data: Buffer) -> None:
        self._unsynced.append(_Write(len(self.content), bytes(data)))
        self.content += data

    def truncate(self, size: int) -> None:
        self._unsynced.append(_Truncate(size))
        del self.content[size:]

    def settle(self, changes: int, *, lost: bool = False) -> None:
        """Make the first `changes` changes durable.

        With `lost` they are forgotten instead, as after a failed fsync: readers go on seeing them, and no later sync
        writes them.
        """
        count = max(0, changes - self._changes_settled)
        settled, self._unsynced = self._unsynced[:count], self._unsynced[count:]
        self._changes_settled += len(settled)
        if not lost:
            for change in settled:
                _apply(self.durable, change)

    def forget_cached(self, position: int) -> None:
        """What readers see from `position` on is what is durable, with the unsynced changes over it."""
        from_device = self.durable[:]
        for change in self._unsynced:
            _apply(from_device, change)
        self.content[position:] = from_device[position:]

    def crash(self, source: random.Random | None) -> None:
        """Lose every unsynced change, or with a random source a random rest of them.

        What a random crash keeps is a prefix of the changes; the write at which it ends may be torn, its missing part
        absent or zeros.
        """
        if source is not None:
            kept = source.randint(0, len(self._unsynced))
            for change in self._unsynced[:kept]:
                _apply(self.durable, change)
            torn = self._unsynced[kept] if kept < len(self._unsynced) else None
            if isinstance(torn, _Write) and torn.data and source.random() < 0.7:
                length = source.randrange(len(torn.data))
                zeros = len(torn.data) - length if source.random() < 0.3 else 0
                _apply(self.durable, _Write(torn.position, torn.data[:length] + bytes(zeros)))
        self._changes_settled += len(self._unsynced)
        self._unsynced = []
        self.content = self.durable[:]

    def damage(self, position: int, mask: int) -> None:
        """Flip bits of one byte, in what readers see and in what is durable."""
        self.content[position] ^= mask
        if position < len(self.durable):
            self.durable[position] ^= mask


def _apply(durable: bytearray, change: _Write | _Truncate) -> None:
    if isinstance(change, _Truncate):
        del durable[change.size :]
        return
    if len(durable) < change.position:
        durable += bytes(change.position - len(durable))
    durable[change.position : change.position + len(change.data)] = change.data
