"""What the facts need of a machine: the content of its disk, and which files the medium has damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from kraft_trio.protocol.voter_set import VoterSet


class Content(Protocol):
    """A disk whose content can be inspected without calling it: as readers see it, and as a crash would leave it.

    "Durable" means present after a crash that loses everything unsynced.
    """

    def peek(self, path: str) -> bytes | None:
        """The content that readers see; None if there is no such file."""
        ...

    def peek_names(self, path: str) -> list[str]:
        """The names of the files in a directory, sorted."""
        ...

    def durable_bytes(self, path: str) -> bytes | None:
        """The durable content; None if no such file is durable."""
        ...

    def durable_slice(self, path: str, start: int, size: int) -> bytes | None:
        """Up to `size` bytes of the durable content."""
        ...

    def durable_size(self, path: str) -> int | None:
        """The length of the durable content."""
        ...


@attrs.define(eq=False)
class Device:
    """The disk that is in a machine now.  A machine has one Device for its whole life, with changing disks."""

    content: Content
    partition_path: str
    """The directory of the log's files."""
    static_voters: Callable[[], VoterSet]
    """The voters in the machine's configuration; empty unless they are static."""
    damaged_files: dict[str, bytes | None] = attrs.field(factory=dict)
    """Files that the medium has damaged, with their content since then."""
    damaged_under_process: set[str] = attrs.field(factory=set)
    """Those that were damaged after the present process, or else the last one, had opened the disk."""
    is_being_replaced: bool = False
    """Whether the machine gets another disk as soon as its process has ended."""

    @property
    def is_damaged(self) -> bool:
        return bool(self.damaged_files)

    def insert(self, content: Content) -> None:
        """Put another, undamaged disk into the machine."""
        self.content = content
        self.damaged_files.clear()
        self.is_being_replaced = False

    def note_damage(self, path: str) -> None:
        """Remember that the medium has just changed this file."""
        self.damaged_files[path] = self.content.peek(path)
        self.damaged_under_process.add(path)

    def is_rotten(self, path: str) -> bool:
        """Whether the medium has damaged this file, and nobody has written it again since."""
        return path in self.damaged_files and self.content.peek(path) == self.damaged_files[path]
