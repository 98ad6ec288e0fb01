"""Serves pieces of the leader's snapshots (KIP-630 "Fetch Snapshot")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft_trio.actors.snapshots.kafka_snapshot_check import KafkaSnapshotCheck
from kraft_trio.errors import StorageFailure
from kraft_trio.messages import SnapshotPiece
from kraft_trio.protocol.snapshot_ids import PieceRefusal, check_piece, piece_size
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.storage.disk.disk import DiskFile
from kraft_trio.storage.snapshots.snapshots import Snapshots
from kraft_trio.wire.error_codes import ErrorCode

MAX_PIECE_BYTES: Final = 1024 * 1024
"""Limit for one piece.  Nothing else runs while it is read."""
MAX_OPEN_FILES: Final = 4
"""Limit for open snapshots: replicas mostly fetch the newest one, or one that has just been replaced."""
MAX_KEPT: Final = 4
"""Limit for pieces in reused memory.  Further pieces get memory of their own."""

_ERRORS = {
    PieceRefusal.SNAPSHOT_NOT_FOUND: ErrorCode.snapshot_not_found,
    PieceRefusal.POSITION_OUT_OF_RANGE: ErrorCode.position_out_of_range,
}


class SnapshotServer:
    """Reads pieces, and keeps the files open between them.  LeaderReplication owns it and calls `close` at the end.

    It is the only writer of `Snapshots.downloads`, which tells a trim what to spare.
    """

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._files: dict[OffsetAndEpoch, DiskFile] = {}
        """Least recently used first.  None of a deleted snapshot, because it would keep its room on the disk."""
        self._end_listening = snapshots.when_forgotten(self.forget)
        self._memory = PieceMemory(MAX_PIECE_BYTES)
        self._kafka_check = KafkaSnapshotCheck()

    def piece(
        self, reader: ReplicaKey | None, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int, *, now_s: float
    ) -> SnapshotPiece:
        """Read up to `max_bytes` from `position`, or return an error.

        `reader` names the replica that asks, if any.  `now_s` is on Trio's clock.  A deleted snapshot is
        SNAPSHOT_NOT_FOUND, and the reader starts over with a newer one.

        Raises StorageFailure if the file cannot be read.
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

    def may_send_to_kafka(self, snapshot_id: OffsetAndEpoch, end: int) -> bool:
        """Whether Kafka can read the snapshot up to the position `end`; true if there is no such snapshot.

        Raises StorageFailure if the file cannot be read.
        """
        try:
            file = self._file(snapshot_id)
            return file is None or self._kafka_check.may_send(snapshot_id, file, end)
        except OSError as error:
            raise StorageFailure(f"{self._snapshots.path(snapshot_id)}: cannot be read: {error}") from error

    def fetched(self, replica: ReplicaKey, has_caught_up_since: Callable[[float], bool], *, now_s: float) -> None:
        """Note that a replica has fetched from the log, and may have caught up."""
        self._snapshots.downloads.fetched(replica, has_caught_up_since, now_s)

    def forget(self, snapshot_id: OffsetAndEpoch) -> None:
        """Close the file of a snapshot, which is deleted, or whose place another file may take."""
        file = self._files.pop(snapshot_id, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files, and spare no download any longer."""
        self._end_listening()
        self._snapshots.downloads.clear()
        while self._files:
            self._files.popitem()[1].close()

    def _file(self, snapshot_id: OffsetAndEpoch) -> DiskFile | None:
        if snapshot_id not in self._snapshots.ids or snapshot_id in self._snapshots.corrupt:
            return None
        file = self._files.pop(snapshot_id, None)
        if file is None:
            if len(self._files) >= MAX_OPEN_FILES:
                self._files.pop(next(iter(self._files))).close()
            file = self._snapshots.open(snapshot_id)
        self._files[snapshot_id] = file
        return file


class PieceMemory:
    """Reuses the memory of pieces, because new memory pages cost as much as the reading.

    A piece stays intact while anything refers to it, for example a frame that is half sent.  Memory is reused once no
    view of it exists.  While a view exists, the bytearray cannot change its length, which is how this class tells.
    """

    def __init__(self, piece_bytes: int) -> None:
        """Only pieces of exactly `piece_bytes` share memory."""
        self._piece_bytes = piece_bytes
        self._kept: list[bytearray] = []

    def read(self, file: DiskFile, position: int, size: int) -> bytes | memoryview:
        """Read `size` bytes from `position`, or fewer at the end of the file.  Raises OSError."""
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
