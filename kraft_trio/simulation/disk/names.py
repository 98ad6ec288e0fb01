"""The names in one directory of the simulated disk: as readers see them, and as a crash may leave them."""

from __future__ import annotations

import random

import attrs

from kraft_trio.simulation.disk.inode import Inode, Loss


@attrs.frozen
class _Change:
    """A name that was made or removed, or both at once by a rename."""

    inode: Inode
    added: str | None


class Names:
    """Every change takes effect wholly or not at all, including a rename."""

    __slots__ = ("_sorted", "_unsynced", "durable", "present")

    def __init__(self) -> None:
        self.present: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        """The names after a crash that loses everything unsynced."""
        self._unsynced: list[_Change] = []
        self._sorted: list[str] | None = None
        """The names of `present`, sorted; None since the last change."""

    @property
    def listing(self) -> list[str]:
        """The names that readers see, in a list of the caller's own."""
        if self._sorted is None:
            self._sorted = sorted(self.present)
        return self._sorted[:]

    def add(self, name: str, inode: Inode) -> None:
        """Add a new file, which replaces one of the same name."""
        self.present[name] = inode
        self._sorted = None
        self._unsynced.append(_Change(inode, name))

    def remove(self, name: str) -> None:
        self._unsynced.append(_Change(self.present.pop(name), None))
        self._sorted = None

    def rename(self, old: str, new: str) -> None:
        inode = self.present.pop(old)
        self.present[new] = inode
        self._sorted = None
        self._unsynced.append(_Change(inode, new))

    def sync(self) -> None:
        self.durable = dict(self.present)
        self._unsynced.clear()

    def crash(self, lose: Loss, source: random.Random) -> None:
        """Lose unsynced changes.  Readers then see what is durable."""
        if lose == "all":
            kept = []
        elif lose == "some":
            kept = self._unsynced[: source.randint(0, len(self._unsynced))]
        else:
            kept = [change for change in self._unsynced if source.random() < 0.5]
        for change in kept:
            # Remove its old name first, because a file has only one.
            self.durable = {name: inode for name, inode in self.durable.items() if inode is not change.inode}
            if change.added is not None:
                self.durable[change.added] = change.inode
        self.present = dict(self.durable)
        self._sorted = None
        self._unsynced.clear()

    def copy(self, copies: dict[Inode, Inode]) -> Names:
        """A copy of the names, with the same ones durable, for copies of the files, which are added to `copies`."""

        def copy_of(inode: Inode) -> Inode:
            if inode not in copies:
                copies[inode] = inode.copy()
            return copies[inode]

        other = Names()
        other.present = {name: copy_of(inode) for name, inode in self.present.items()}
        other.durable = {name: copy_of(inode) for name, inode in self.durable.items()}
        other._unsynced = [_Change(copy_of(change.inode), change.added) for change in self._unsynced]
        return other
