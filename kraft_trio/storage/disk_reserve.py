"""The room that a node keeps for itself, so that it can still say that the disk is full.

A file of blocks that nothing is written to.  The first write that finds no room gives them free, and what the node has
left to do fits: it resigns, stores the vote it may give its successor, and closes its log.  Then it ends.
"""

from __future__ import annotations

from typing import Final

import structlog
import trio

from kraft_trio.errors import DiskFullError, StorageFailure
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.failures import storage_failure

log = structlog.get_logger(__name__)

DISK_RESERVE: Final = "disk-reserve"
"""In the node's directory, where Kafka looks at no plain files but those it knows."""

RESERVE_BYTES: Final = 256 * 1024
"""Each quorum-state takes a block of the file system, at most 64 KiB, beside the one it replaces."""


class DiskReserve:
    """Owned by the node, which waits here for whatever ends it: a disk that is full, or one that has failed.

    Whoever finds the disk full releases it.  It is made anew at the next start, which is refused for as long as there
    is no room for it.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        """Make it, or make sure of the one that is there.  Blocks.  Raises DiskFullError, StorageFailure."""
        self._disk = disk
        self._path = join(directory, DISK_RESERVE)
        self._ended = trio.Event()
        self._failure: StorageFailure | None = None
        self._shortage: DiskFullError | None = None
        try:
            disk.allocate(self._path, RESERVE_BYTES)
        except OSError as error:
            self._remove()
            raise storage_failure(f"{self._path}: cannot reserve {RESERVE_BYTES} bytes", error) from error

    @property
    def shortage(self) -> DiskFullError | None:
        """What it was released for; None while it is there.  From then on nothing is appended any more."""
        return self._shortage

    @property
    def failure(self) -> StorageFailure | None:
        """What the node is to end with; None while nothing has failed."""
        return self._failure

    def release(self, shortage: DiskFullError) -> bool:
        """There was no room for something: give the blocks free.  Whether that had not been done before."""
        if self._shortage is not None:
            return False
        self._shortage = shortage
        self._remove()
        log.error("disk full", reason=str(shortage), released_bytes=RESERVE_BYTES)
        self.end(shortage)
        return True

    def end(self, failure: StorageFailure) -> None:
        """The node is to end with that, if not with an earlier one: whoever else hears of it, or does not."""
        if self._failure is None:
            self._failure = failure
            self._ended.set()

    async def wait_for_the_end(self) -> StorageFailure:
        """Wait until the disk is full or has failed; what the node has to end with."""
        await self._ended.wait()
        assert self._failure is not None
        return self._failure

    def _remove(self) -> None:
        try:
            self._disk.remove(self._path)
        except OSError as error:
            log.warning("the disk's reserve cannot be released", file=self._path, reason=str(error))
