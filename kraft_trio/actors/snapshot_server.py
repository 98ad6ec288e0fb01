"""Gives out the pieces of this replica's snapshots while it leads (KIP-630 "Fetch Snapshot")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft_trio.errors import StorageFailure
from kraft_trio.messages import SnapshotPiece
from kraft_trio.protocol.snapshot_ids import PieceRefusal, check_piece, piece_size
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.storage.disk import DiskFile
from kraft_trio.storage.snapshots import Snapshots
from kraft_trio.wire.error_codes import ErrorCode

MAX_PIECE_BYTES: Final = 1024 * 1024
"""The most that is read at a time: nothing else runs meanwhile."""
MAX_OPEN_FILES: Final = 4
"""Replicas that join at the same time ask for the same snapshot; one that has just been replaced is asked for too."""
MAX_KEPT: Final = 4
"""Pieces that are on their way at the same time, for which memory is kept; those above that have their own."""

_ERRORS = {
    PieceRefusal.SNAPSHOT_NOT_FOUND: ErrorCode.snapshot_not_found,
    PieceRefusal.POSITION_OUT_OF_RANGE: ErrorCode.position_out_of_range,
}


class SnapshotServer:
    """Owned by LeaderReplication of one epoch, which ends it with `close`.  Keeps the files open between pieces.

    It is the only writer of `Snapshots.downloads`, by which a trim spares what is being fetched.
    """

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._files: dict[OffsetAndEpoch, DiskFile] = {}
        """Least recently asked for first."""
        self._memory = PieceMemory(MAX_PIECE_BYTES)

    def piece(
        self, reader: ReplicaKey | None, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int, *, now_s: float
    ) -> SnapshotPiece:
        """The bytes of that snapshot from `position` on, or why not.  Raises StorageFailure where they cannot be read.

        `reader` is the replica that asks, None for one that is no replica; `now_s` is Trio's clock.

        A snapshot that was deleted meanwhile is not found: whoever has a part of it begins anew with a newer one.
        """
        try:
            file = self._file(snapshot_id)
            size = None if file is None else file.size()
            refusal = check_piece(position, size)
            if refusal is not None or file is None or size is None:
                return SnapshotPiece(_ERRORS[refusal or PieceRefusal.SNAPSHOT_NOT_FOUND])
            data = self._memory.read(file, position, piece_size(position, size, max_bytes, MAX_PIECE_BYTES))
        except OSError as error:
            raise StorageFailure(f"{self._snapshots.path(snapshot_id)}: cannot be read: {error}") from error
        self._snapshots.downloads.piece_given(reader, snapshot_id, now_s)
        return SnapshotPiece(ErrorCode.none, size, data)

    def fetched(self, replica: ReplicaKey, has_caught_up_since: Callable[[float], bool], *, now_s: float) -> None:
        """That replica has gone on to the log, and may have caught up with it."""
        self._snapshots.downloads.fetched(replica, has_caught_up_since, now_s)

    def forget(self, snapshot_id: OffsetAndEpoch) -> None:
        """The file of that name is not to be read any more; another one may take its place."""
        file = self._files.pop(snapshot_id, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close the files; nothing is given out any more, and nothing spared."""
        self._snapshots.downloads.clear()
        while self._files:
            self._files.popitem()[1].close()

    def _file(self, snapshot_id: OffsetAndEpoch) -> DiskFile | None:
        for deleted in [known for known in self._files if known not in self._snapshots.ids]:
            self._files.pop(deleted).close()
        if snapshot_id not in self._snapshots.ids or snapshot_id in self._snapshots.unfit:
            return None
        file = self._files.pop(snapshot_id, None)
        if file is None:
            if len(self._files) >= MAX_OPEN_FILES:
                self._files.pop(next(iter(self._files))).close()
            file = self._snapshots.open(snapshot_id)
        self._files[snapshot_id] = file
        return file


class PieceMemory:
    """Owned by one SnapshotServer.  What it gives is whole for as long as anybody holds it.

    A piece may wait, for as long as a peer likes, in a frame that is half sent.  Its memory is used again once no view
    of it is left: a bytearray of which there is one cannot change its length.
    """

    def __init__(self, piece_bytes: int) -> None:
        """Memory is kept for pieces of that size, the usual one."""
        self._piece_bytes = piece_bytes
        self._kept: list[bytearray] = []

    def read(self, file: DiskFile, position: int, size: int) -> bytes | memoryview:
        """Up to `size` bytes from `position`; fewer only where the file ends.  Raises OSError."""
        memory = self._unused() if size == self._piece_bytes else None
        if memory is None:
            return file.read_at(position, size)
        view = memoryview(memory)
        return view[: file.read_into(position, view)]

    def _unused(self) -> bytearray | None:
        for memory in self._kept:
            if not _has_views(memory):
                return memory
        if len(self._kept) >= MAX_KEPT:
            return None
        self._kept.append(bytearray(self._piece_bytes))
        return self._kept[-1]


def _has_views(memory: bytearray) -> bool:
    try:
        memory.append(0)
    except BufferError:
        return True
    del memory[-1]
    return False
