"""Disk space that a node reserves for its own end on a full disk.

The reserve is a file of allocated blocks.  The first write without room releases it.  Then the node has room to resign,
to store a vote for its successor and to close its log, before it ends.
"""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.errors import DiskFullError, StorageFailure
from kraft_trio.logs import get_logger
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.failures import storage_failure

log = get_logger(__name__)

DISK_RESERVE: Final = "disk-reserve"
"""In the node's directory.  Kafka ignores files there that it does not know."""

RESERVE_BYTES: Final = 256 * 1024
"""Each replacement of quorum-state temporarily takes a block of the file system, at most 64 KiB."""


class DiskReserve:
    """The reserve, and what ends the node: a full or failed disk.  Owned by the node, which waits here.

    The task that finds the disk full releases it.  The next start allocates it again, or is refused if there is no
    room.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        """Allocate the reserve, unless it exists already.  Blocks.  Raises DiskFullError, StorageFailure."""
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
        """The shortage for which it was released, or None.  Once it is set, nothing is appended."""
        return self._shortage

    @property
    def failure(self) -> StorageFailure | None:
        """The failure that ends the node, or None."""
        return self._failure

    def release(self, shortage: DiskFullError) -> bool:
        """Release the blocks after a write without room.  Returns False if they were released before."""
        if self._shortage is not None:
            return False
        self._shortage = shortage
        self._remove()
        log.error("disk full", reason=str(shortage), released_bytes=RESERVE_BYTES)
        self.end(shortage)
        return True

    def end(self, failure: StorageFailure) -> None:
        """End the node with this failure, unless an earlier one ends it."""
        if self._failure is None:
            self._failure = failure
            self._ended.set()

    async def wait_for_the_end(self) -> StorageFailure:
        """Wait until the disk is full or has failed; return the failure that ends the node."""
        await self._ended.wait()
        assert self._failure is not None
        return self._failure

    def _remove(self) -> None:
        try:
            self._disk.remove(self._path)
        except OSError as error:
            log.warning("the disk's reserve cannot be released", file=self._path, reason=str(error))
