"""A snapshot that comes in pieces from the leader: gathered in a `.part`, checked as a whole, and only then there."""

from __future__ import annotations

import trio

from kraft_trio.errors import CorruptSnapshotError, ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk import Buffer, Disk, join
from kraft_trio.storage.part_file import PartFile
from kraft_trio.storage.partition_files import checkpoint_name
from kraft_trio.storage.snapshot_reader import SnapshotCount, SnapshotSummary, read_batches
from kraft_trio.storage.snapshot_writer import CHECKPOINT_MODE
from kraft_trio.storage.unfinished_snapshot import UnfinishedSnapshot


class SnapshotDownload(UnfinishedSnapshot):
    """One snapshot on its way here (KIP-630 "Fetch Snapshot").

    Made and used by one task, as `async with` or ended by `finish` or `abandon`.  A connection or a leader that is lost
    in between ends nothing: every replica's snapshot of one id has the same bytes, so that the next piece may come from
    whoever leads then.  Writing may raise StorageFailure, DiskFullError where there is no room, after which only
    `abandon` is left.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot_id: OffsetAndEpoch,
        *,
        name: str | None = None,
        nursery: trio.Nursery | None = None,
    ) -> None:
        """Begin; what an earlier attempt left is removed.  `name` None: the name of a node's snapshot.

        With a nursery, as in `async with`, the device works on one piece while the next ones come.
        """
        self.snapshot_id = snapshot_id
        self.size_in_bytes: int | None = None
        """Of the whole snapshot, as the first piece's answer says; None before that."""
        super().__init__(join(directory, checkpoint_name(snapshot_id) if name is None else name))
        try:
            self._part = PartFile(disk, self.path, mode=CHECKPOINT_MODE, nursery=nursery)
        except OSError as error:
            raise self._failure(error) from error

    @property
    def position(self) -> int:
        """How many bytes are here: where the next piece begins."""
        return self._part.size()

    @property
    def is_complete(self) -> bool:
        """Whether every byte is here; `finish` is next."""
        return self.size_in_bytes is not None and self.position == self.size_in_bytes

    async def append(self, position: int, data: Buffer, size_in_bytes: int) -> None:
        """Take in the piece that begins at `position` of a snapshot of that size.

        Raises ProtocolError, taking nothing in, unless it begins where the last one ended, has a byte or more, and
        fits; and where the size is another than before.
        """
        if self.size_in_bytes is not None and size_in_bytes != self.size_in_bytes:
            raise ProtocolError(
                f"snapshot {self.snapshot_id}: size {size_in_bytes}, it was {self.size_in_bytes} before: another file"
            )
        if position != self.position:
            raise ProtocolError(f"snapshot {self.snapshot_id}: position {position}, expected {self.position}")
        if not 0 < len(data) <= size_in_bytes - position:
            raise ProtocolError(
                f"snapshot {self.snapshot_id}: {len(data)} bytes at position {position}, expected 1 to "
                f"{size_in_bytes - position}"
            )
        self.size_in_bytes = size_in_bytes
        try:
            await self._part.append(data)
        except OSError as error:
            raise self._failure(error) from error

    async def finish(self) -> SnapshotSummary:
        """Check all of it, and make it durable under its name.  Others run while it is read.

        Raises CorruptSnapshotError, naming position and what was expected, for what is no whole snapshot of that id:
        then it is abandoned, and there is none.
        """
        assert self.is_complete, f"{self.position} of {self.size_in_bytes} bytes are here"
        try:
            count = SnapshotCount()
            for batch in read_batches(self._part, self.snapshot_id.epoch):
                count.add(batch)
                await trio.lowlevel.checkpoint()
            await self._part.finish()
        except ProtocolError as error:
            await self.abandon()
            raise CorruptSnapshotError(f"{self.path}: {error}") from error
        except OSError as error:
            raise self._failure(error) from error
        self._ended = True
        return count.summary(self.snapshot_id)
