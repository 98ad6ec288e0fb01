"""Downloads a snapshot on a replica whose log ends below the start of the leader's log."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.errors import CorruptSnapshotError, DiskFullError, ProtocolError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.snapshot_ids import check_offered_snapshot
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.snapshots.snapshot_download import SnapshotDownload
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotResponse

log = get_logger(__name__)

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""The longest pause before fetching a snapshot that was damaged or did not fit on the disk.  Pauses double."""


class SnapshotFetch:
    """Downloads one snapshot at a time, and replaces the log by it (KIP-630 "Fetch Snapshot").

    The node owns it.  Only FollowerReplication of the current epoch uses it, so nothing is written after that has ended
    (R1).  A download outlives the epoch: it continues if the next leader names the same snapshot, which has the same
    bytes on every replica (invariant EqualStates).

    Writing may raise StorageFailure, which ends the node.  The exception is DiskFullError if the log is not poisoned:
    the snapshot is then put off, and nothing else has changed.
    """

    def __init__(self, disk: Disk, log: Log) -> None:
        self._disk = disk
        self._log = log
        self._download: SnapshotDownload | None = None
        self._put_off_id: OffsetAndEpoch | None = None
        self._not_before_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sync the download while more of it arrives, until cancelled.  It runs across epochs, as the download does."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    @property
    def snapshot_id(self) -> OffsetAndEpoch | None:
        """The snapshot that is being downloaded, or None."""
        return None if self._download is None else self._download.snapshot_id

    @property
    def position(self) -> int:
        """How many bytes have arrived, which is the position of the next piece.  0 without a download."""
        return 0 if self._download is None else self._download.position

    @property
    def size_in_bytes(self) -> int | None:
        """The size of the whole snapshot.  None until the first piece arrives, and without a download."""
        return None if self._download is None else self._download.size_in_bytes

    @property
    def is_complete(self) -> bool:
        """Whether every byte has arrived, so that `install` may be called."""
        return self._download is not None and self._download.is_complete

    def is_put_off(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether that snapshot must not be fetched yet, because it could not be used the last time."""
        return snapshot_id == self._put_off_id and trio.current_time() < self._not_before_s

    async def begin(self, snapshot_id: OffsetAndEpoch, epoch: int) -> None:
        """Start or continue the download that the leader of that epoch named; give up any other.

        Raises ProtocolError, and changes nothing, if the snapshot must not replace the log.
        """
        check_offered_snapshot(snapshot_id, epoch=epoch, high_watermark=self._log.high_watermark)
        if snapshot_id != self.snapshot_id:
            await self.abandon()
            try:
                self._download = SnapshotDownload(self._disk, self._log.directory, snapshot_id, nursery=self._nursery)
            except DiskFullError:
                self._put_off(snapshot_id)
                raise
        log.info("fetching a snapshot", snapshot_id=str(snapshot_id), position=self.position)

    def copy_of(self, snapshot_id: OffsetAndEpoch) -> SnapshotDownload:
        """A download of a snapshot that this log covers, in addition to the one that would replace it.  The caller owns
        it."""
        return SnapshotDownload(self._disk, self._log.directory, snapshot_id)

    async def take(self, response: FetchSnapshotResponse) -> None:
        """Write the piece of the snapshot that is in a response; the response has no error.

        Raises ProtocolError, and gives the download up, if the piece does not continue it.  Raises CorruptSnapshotError
        or DiskFullError, and gives it up for a while, if a batch is damaged, or if there is no room.
        """
        assert self._download is not None, "no snapshot is on its way"
        try:
            if response.snapshot_id != self._download.snapshot_id:
                raise ProtocolError(
                    f"snapshot {self._download.snapshot_id}: a piece of snapshot {response.snapshot_id} came"
                )
            await self._download.append(response.position, response.unaligned_records, response.size)
        except ProtocolError:
            await self.abandon()
            raise
        except (CorruptSnapshotError, DiskFullError):
            await self._give_up_for_now()
            raise

    async def install(self) -> None:
        """Check the whole snapshot, and replace the log by it in one step (scenario S11).

        No trim runs meanwhile.  Raises CorruptSnapshotError, and gives the download up, if the snapshot is damaged.
        """
        download = self._download
        assert download is not None, "no snapshot is on its way"
        async with self._log.trimming:
            try:
                summary = await download.finish()
            except (CorruptSnapshotError, DiskFullError):
                await self._give_up_for_now()
                raise
            # From here on nothing waits, so a cancelled install is either complete or can go on.
            self._download = None
            self._put_off_id = None
            self._log.add_snapshot(summary.snapshot_id)
            self._log.truncate_fully_to(summary.snapshot_id)
        log.info(
            "snapshot in place of the log",
            snapshot_id=str(summary.snapshot_id),
            size_in_bytes=summary.size_in_bytes,
            records=summary.record_count,
        )
        await self._log.remove_retired()

    async def _give_up_for_now(self) -> None:
        assert self._download is not None
        self._put_off(self._download.snapshot_id)
        await self.abandon()

    def _put_off(self, snapshot_id: OffsetAndEpoch) -> None:
        again = snapshot_id == self._put_off_id
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S) if again else FIRST_PAUSE_S
        self._put_off_id, self._not_before_s = snapshot_id, trio.current_time() + self._pause_s
        log.info("snapshot put off", snapshot_id=str(snapshot_id), seconds=self._pause_s)

    async def abandon(self) -> None:
        """Give up the download, if there is one."""
        download, self._download = self._download, None
        if download is not None:
            log.info("snapshot given up", snapshot_id=str(download.snapshot_id), position=download.position)
            await download.abandon()
