"""The threads that wait for one disk: none of them are those that Trio gives to everybody, which may all be taken."""

from __future__ import annotations

import trio

from kraft_trio.storage.fsync_thread import FsyncThread


class DiskThreads:
    """Owned by a RealDisk.  What waits for one kind of work never waits for another kind."""

    def __init__(self) -> None:
        self.fsync = FsyncThread()
        """The log's and the quorum-state's."""
        self.large_syncs = trio.CapacityLimiter(2)
        """Of snapshots, one that is written and one that is fetched."""
        self.names = trio.CapacityLimiter(2)
        """Renaming and removing large files."""
        self.small_files = trio.CapacityLimiter(1)
        """Metrics, which nobody waits for."""

    def close(self) -> None:
        self.fsync.close()
