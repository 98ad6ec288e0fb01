"""Limits the memory of request bodies, of long answers, and of parts of streams that clients do not read.

If they are too large together, the address with the most loses its largest.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class Holder(Protocol):
    """What this module needs of a connection."""

    @property
    def peer_host(self) -> str: ...

    def cut(self) -> None: ...


class BodyMemory:
    """Owned by HttpServer.  Nothing here waits."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: dict[Holder, int] = {}
        self.taken = 0

    def hold(self, holder: Holder, size: int) -> None:
        """Note how much the connection holds now.  If it is too much, cut one connection after the other."""
        self.taken += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        while self.taken > self._limit:
            victim = self._victim()
            self.taken -= self._held.pop(victim)
            victim.cut()

    def _victim(self) -> Holder:
        of_address: Counter[str] = Counter()
        for holder, size in self._held.items():
            of_address[holder.peer_host] += size
        greedy = max(of_address, key=lambda address: of_address[address])
        return max(
            (holder for holder in self._held if holder.peer_host == greedy), key=lambda holder: self._held[holder]
        )
