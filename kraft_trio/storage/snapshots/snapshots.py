"""The snapshots in a partition's directory, and which of them are damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.snapshot_downloads import SnapshotDownloads
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, DiskFile, join
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, check_snapshot, read_control_state

log = get_logger(__name__)


@attrs.frozen
class SnapshotFile:
    """A snapshot's size and times.  Size and `written_ms` decide how long it is kept."""

    snapshot_id: OffsetAndEpoch
    size_in_bytes: int
    timestamp_ms: int
    """The timestamp of the last record that it covers."""
    written_ms: int
    """When this replica wrote the file, by its own clock.  Clients choose the timestamps of records."""


class Snapshots:
    """The snapshots of one log, which owns this.  The bootstrap checkpoint, 0-0, is not one of them.

    Opening reads the newest one to its end, so that it is known to be whole.  It ignores damaged snapshots, and leaves
    their files for inspection.
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
        """The snapshots found damaged at open, and what is wrong, by id."""
        self.corrupt: dict[OffsetAndEpoch, str] = {}
        """The snapshots among `ids` found damaged since the log was opened, and what is wrong."""
        self._corruption_listeners: list[Callable[[], object]] = []
        self._forget_listeners: list[Callable[[OffsetAndEpoch], object]] = []
        self.downloads = SnapshotDownloads()
        """The replicas that fetch a snapshot while this replica leads."""

    @classmethod
    def find(cls, disk: Disk, directory: str, names: list[str]) -> Snapshots:
        """Find the snapshots among the names of a directory, and read them, newest first, until one is whole.

        Blocks while the disk reads.  Raises OSError.
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
        """End offset (exclusive) and epoch of each snapshot, oldest first."""
        return tuple(self._ids)

    @property
    def newest(self) -> OffsetAndEpoch | None:
        return self._ids[-1] if self._ids else None

    @property
    def newest_intact(self) -> OffsetAndEpoch | None:
        """The newest snapshot that is not known to be damaged."""
        if not self.corrupt:
            return self.newest
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
        """Call `listener` each time a snapshot is found damaged."""
        self._corruption_listeners.append(listener)

    def when_forgotten(self, listener: Callable[[OffsetAndEpoch], object]) -> Callable[[], None]:
        """Call `listener` with the id of each snapshot that is forgotten, until what this returns is called."""
        self._forget_listeners.append(listener)
        return lambda: self._forget_listeners.remove(listener)

    def found_corrupt(self, snapshot_id: OffsetAndEpoch, reason: str) -> None:
        """Note that one of `ids` is damaged.  The log may still start at its end.

        Replicas are no longer served from it, and nothing is trimmed because of it, until a newer snapshot, or another
        one of that id, is added.  The next open counts it as `damaged`.
        """
        if snapshot_id in self._ids:
            self.corrupt[snapshot_id] = reason
            for listener in self._corruption_listeners:
                listener()

    def open(self, snapshot_id: OffsetAndEpoch) -> DiskFile:
        """Open a snapshot to read.  The caller closes it, and can read on if it is deleted meanwhile.

        Raises KeyError if there is no such snapshot, OSError.
        """
        if snapshot_id not in self._ids:
            raise KeyError(f"snapshot {snapshot_id}: there are {', '.join(map(str, self._ids)) or 'none'}")
        return self._disk.open_to_read(self.path(snapshot_id))

    def control_state(self, snapshot_id: OffsetAndEpoch) -> ControlState:
        """Read the snapshot's control records.  Raises CorruptSnapshotError, OSError."""
        return read_control_state(self._disk, self.path(snapshot_id), snapshot_id)

    def file(self, snapshot_id: OffsetAndEpoch) -> SnapshotFile:
        """Return size and times.  Raises CorruptSnapshotError for a file without a snapshot's header, OSError."""
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
        """Return sizes and times, oldest first.  A file without a snapshot's header is ignored from now on.

        Raises CorruptSnapshotError if that, or known damage, concerns the newest snapshot.  Raises OSError.
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
        """Add a snapshot whose file is whole and durable."""
        self.damaged.pop(snapshot_id, None)
        self.corrupt.pop(snapshot_id, None)
        self._files.pop(snapshot_id, None)
        if snapshot_id not in self._ids:
            self._ids = sorted([*self._ids, snapshot_id])

    def forget(self, snapshot_id: OffsetAndEpoch) -> None:
        """Forget a snapshot, damaged or not, before its file is removed.  An open file keeps its room on the disk."""
        for listener in self._forget_listeners:
            listener(snapshot_id)
        if snapshot_id in self._ids:
            self._ids.remove(snapshot_id)
        self.damaged.pop(snapshot_id, None)
        self.corrupt.pop(snapshot_id, None)
        self._files.pop(snapshot_id, None)

    def retire(self, snapshot_id: OffsetAndEpoch) -> str:
        """Rename a snapshot's file durably; return the new path, to be deleted later.

        Blocks for a directory fsync.  Raises OSError.
        """
        self.forget(snapshot_id)
        return partition_files.retire(self._disk, self._directory, partition_files.checkpoint_name(snapshot_id))

    def retire_below(self, log_start_offset: int) -> list[str]:
        """Retire the snapshots that end below the log's start, damaged or not: what follows them is gone.

        Returns what `retire` returns for each.  Raises OSError.
        """
        return [self.retire(id) for id in (*self._ids, *self.damaged) if id.offset < log_start_offset]
