"""The snapshot that a follower or an observer fetches where its leader's log no longer reaches back to its own."""

from __future__ import annotations

from typing import Final

import structlog
import trio

from kraft_trio.errors import CorruptSnapshotError, DiskFullError, ProtocolError
from kraft_trio.protocol.snapshot_offers import check_offered_snapshot
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk import Disk
from kraft_trio.storage.log import Log
from kraft_trio.storage.snapshot_download import SnapshotDownload
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotResponse

log = structlog.get_logger(__name__)

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""How long a snapshot that was damaged when it was here, or had no room, is put off: each time twice as long."""


class SnapshotFetch:
    """One snapshot at a time, from its first piece to its taking the log's place (KIP-630 "Fetch Snapshot").

    The node owns it; only FollowerReplication of the present epoch uses it, so that nothing is written once that has
    ended (R1).  It outlives the epochs: what has come is not fetched again where the next leader names the same
    snapshot, which has the same bytes on every replica (invariant EqualStates).

    Whatever it writes may raise StorageFailure, with which the node ends; but DiskFullError, where the log is not
    poisoned by it, has put the snapshot off and changed nothing else.
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
        """Have what comes fsynced while more of it does, until cancelled; without this it is fsynced in between.

        Not for one epoch alone: the file outlives it, and what is written stays written when an epoch ends (R1).
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    @property
    def snapshot_id(self) -> OffsetAndEpoch | None:
        """The snapshot that is on its way here; None where none is."""
        return None if self._download is None else self._download.snapshot_id

    @property
    def position(self) -> int:
        """How many bytes of it are here: where the next piece begins.  0 where none is on its way."""
        return 0 if self._download is None else self._download.position

    @property
    def size_in_bytes(self) -> int | None:
        """Of the whole of it; None until the first piece tells, and where none is on its way."""
        return None if self._download is None else self._download.size_in_bytes

    @property
    def is_complete(self) -> bool:
        """Whether every byte of it is here; `install` is next."""
        return self._download is not None and self._download.is_complete

    def is_put_off(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether that one, which could not be used the last time, is to be left alone for now."""
        return snapshot_id == self._put_off_id and trio.current_time() < self._not_before_s

    async def begin(self, snapshot_id: OffsetAndEpoch, epoch: int) -> None:
        """The leader of that epoch named this one: go on with it, or give another one up and begin.

        Raises ProtocolError, changing nothing, for one that must not take the log's place.
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

    async def take(self, response: FetchSnapshotResponse) -> None:
        """Take in the piece of an answer without errors.  Raises ProtocolError for one that does not continue it.

        Then it is given up: whoever answers like that may have given other bytes, too.
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
        except DiskFullError:
            await self._give_up_for_now()
            raise

    async def install(self) -> None:
        """Check the whole snapshot, and put it in the log's place, with all that it says (scenario S11).

        Nothing runs between the log's hearing of it and its giving way, and no trim is under way meanwhile.  Raises
        CorruptSnapshotError, having given it up, where its bytes are no whole snapshot.
        """
        download = self._download
        assert download is not None, "no snapshot is on its way"
        try:
            summary = await download.finish()
        except (CorruptSnapshotError, DiskFullError):
            await self._give_up_for_now()
            raise
        self._download = None
        self._put_off_id = None
        async with self._log.trimming:
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
        """Give up what is on its way, if anything is."""
        download, self._download = self._download, None
        if download is not None:
            log.info("snapshot given up", snapshot_id=str(download.snapshot_id), position=download.position)
            await download.abandon()
