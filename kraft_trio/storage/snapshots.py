"""The snapshots of a partition's directory, and which of them can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import structlog

from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.protocol.snapshot_downloads import SnapshotDownloads
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage import partition_files
from kraft_trio.storage.disk import Disk, DiskFile, join
from kraft_trio.storage.snapshot_reader import ControlState, check_snapshot, read_control_state

log = structlog.get_logger(__name__)


@attrs.frozen
class SnapshotFile:
    """What is told of a snapshot; its size and `written_ms` decide how long it is kept."""

    snapshot_id: OffsetAndEpoch
    size_in_bytes: int
    timestamp_ms: int
    """Of the last record that it covers."""
    written_ms: int
    """When this replica wrote it, by its own clock: a writer of records chooses their timestamps."""


class Snapshots:
    """The snapshots of one log, which owns this and alone changes it; the bootstrap one, 0-0, is not among them.

    Of those found at open the newest is whole: every byte of it was read.  Damaged ones are left where they are, for
    whoever wants to look at them, and count for nothing.
    """

    def __init__(
        self, disk: Disk, directory: str, ids: Sequence[OffsetAndEpoch], damaged: dict[OffsetAndEpoch, str]
    ) -> None:
        """Use `find`."""
        self._disk = disk
        self._directory = directory
        self._ids = sorted(ids)
        self._files: dict[OffsetAndEpoch, SnapshotFile] = {}
        self.damaged = damaged
        """What is wrong with those that are, by id."""
        self.corrupt: dict[OffsetAndEpoch, str] = {}
        """What is wrong with those of `ids` that have been found to be damaged since the log was opened."""
        self._corruption_listeners: list[Callable[[], object]] = []
        self.downloads = SnapshotDownloads()
        """Who is being given one of them, while this replica leads."""

    @classmethod
    def find(cls, disk: Disk, directory: str, names: list[str]) -> Snapshots:
        """Those among the names of a directory.  Newest first they are read to the end, until one is whole.

        Blocks for as long as the disk takes to read it.  Raises OSError.
        """
        ids = [id for id in partition_files.checkpoint_ids(names) if id.offset > 0]
        damaged: dict[OffsetAndEpoch, str] = {}
        while ids:
            try:
                check_snapshot(disk, join(directory, partition_files.checkpoint_name(ids[-1])), ids[-1])
                break
            except CorruptSnapshotError as error:
                log.error("damaged snapshot ignored", reason=str(error))
                damaged[ids.pop()] = str(error)
        return cls(disk, directory, ids, damaged)

    @property
    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        """End offset (exclusive) and epoch of each, oldest first."""
        return tuple(self._ids)

    @property
    def newest(self) -> OffsetAndEpoch | None:
        return self._ids[-1] if self._ids else None

    @property
    def newest_intact(self) -> OffsetAndEpoch | None:
        """The newest that may be given to others."""
        return next((id for id in reversed(self._ids) if id not in self.corrupt), None)

    def to_offer(self, *, needs_one: bool) -> OffsetAndEpoch | None:
        """The newest snapshot that replicas may fetch.

        If all are damaged and the replica `needs_one`, the newest of all; the leader refuses to serve it.
        """
        fit = self.newest_intact
        return self.newest if fit is None and needs_one else fit

    @property
    def oldest(self) -> OffsetAndEpoch | None:
        return self._ids[0] if self._ids else None

    @property
    def newest_damaged(self) -> OffsetAndEpoch | None:
        return max(self.damaged, default=None)

    def path(self, snapshot_id: OffsetAndEpoch) -> str:
        return join(self._directory, partition_files.checkpoint_name(snapshot_id))

    def when_corrupt(self, listener: Callable[[], object]) -> None:
        """Call `listener` each time that a snapshot turns out to be damaged."""
        self._corruption_listeners.append(listener)

    def found_corrupt(self, snapshot_id: OffsetAndEpoch, reason: str) -> None:
        """One of `ids` has turned out to be damaged.  The log still begins where it covers what was before.

        Nobody is given it any more, and nothing is dropped because of it, until there is a newer one, or another one of
        that id.  At the next open it is among the `damaged`.
        """
        if snapshot_id in self._ids:
            self.corrupt[snapshot_id] = reason
            for listener in self._corruption_listeners:
                listener()

    def open(self, snapshot_id: OffsetAndEpoch) -> DiskFile:
        """For reading pieces of it; whoever opens it closes it, and may read on when the snapshot is deleted meanwhile.

        Raises KeyError for one that is not there, OSError.
        """
        if snapshot_id not in self._ids:
            raise KeyError(f"snapshot {snapshot_id}: there are {', '.join(map(str, self._ids)) or 'none'}")
        return self._disk.open_to_read(self.path(snapshot_id))

    def control_state(self, snapshot_id: OffsetAndEpoch) -> ControlState:
        """What it says of the quorum itself.  Raises CorruptSnapshotError, OSError."""
        return read_control_state(self._disk, self.path(snapshot_id), snapshot_id)

    def file(self, snapshot_id: OffsetAndEpoch) -> SnapshotFile:
        """Its size and times.  Raises CorruptSnapshotError for a file that does not begin as a snapshot, OSError."""
        found = self._files.get(snapshot_id)
        if found is None:
            opened = self._disk.open_to_read(self.path(snapshot_id))
            try:
                size_in_bytes = opened.size()
            finally:
                opened.close()
            timestamp_ms = self.control_state(snapshot_id).last_contained_log_timestamp_ms
            written_ms = self._disk.modified_ms(self.path(snapshot_id))
            found = self._files[snapshot_id] = SnapshotFile(snapshot_id, size_in_bytes, timestamp_ms, written_ms)
        return found

    def files(self) -> list[SnapshotFile]:
        """Sizes and times, oldest first.  One that does not even begin as a snapshot counts for nothing from now on.

        Raises CorruptSnapshotError where that is the newest, or it is unfit: then nothing may rely on it; OSError.
        """
        if self.newest is not None and self.newest in self.corrupt:
            raise CorruptSnapshotError(self.corrupt[self.newest])
        found = []
        for snapshot_id in self.ids:
            try:
                found.append(self.file(snapshot_id))
            except CorruptSnapshotError as error:
                if snapshot_id == self.newest:
                    raise
                log.error("damaged snapshot ignored", reason=str(error))
                self._ids.remove(snapshot_id)
                self.damaged[snapshot_id] = str(error)
        return found

    def add(self, snapshot_id: OffsetAndEpoch) -> None:
        """A snapshot is there, whole and durable."""
        self.damaged.pop(snapshot_id, None)
        self.corrupt.pop(snapshot_id, None)
        self._files.pop(snapshot_id, None)
        if snapshot_id not in self._ids:
            self._ids = sorted([*self._ids, snapshot_id])

    def forget(self, snapshot_id: OffsetAndEpoch) -> None:
        """One, damaged or not, is about to go: it is not to be opened any more."""
        if snapshot_id in self._ids:
            self._ids.remove(snapshot_id)
        self.damaged.pop(snapshot_id, None)
        self.corrupt.pop(snapshot_id, None)
        self._files.pop(snapshot_id, None)

    def retire(self, snapshot_id: OffsetAndEpoch) -> str:
        """Rename one, damaged or not, durably, so that it is none any more; the path of what is left to be removed.

        Blocks for a directory fsync.  Raises OSError.
        """
        self.forget(snapshot_id)
        return partition_files.retire(self._disk, self._directory, partition_files.checkpoint_name(snapshot_id))

    def retire_below(self, log_start_offset: int) -> list[str]:
        """Retire the snapshots that end below the log's start, damaged or not: what follows them is gone.

        Returns what `retire` returns for each.  Raises OSError.
        """
        return [self.retire(id) for id in (*self._ids, *self.damaged) if id.offset < log_start_offset]
