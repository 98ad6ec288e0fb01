"""Copies a committed snapshot of a running quorum into a file (KIP-630 "Fetch Snapshot")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

import attrs
import trio

from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.leader_finder import LeaderFinder
from kraft_trio.client.metadata_snapshot import NOTHING, refuse_existing, state_of, write_later_snapshot
from kraft_trio.client.metadata_tail import MetadataTail
from kraft_trio.client.replica_snapshots import ask_for_snapshots
from kraft_trio.client.snapshot_piece import snapshot_piece
from kraft_trio.errors import DiskFullError, NetworkError, ProtocolError, RefusedError, StorageError, StorageFailure
from kraft_trio.protocol.kafka_records import METADATA_TOPIC
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.snapshots.snapshot_download import SnapshotDownload
from kraft_trio.storage.snapshots.snapshot_reader import SnapshotSummary
from kraft_trio.wire.api import REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork

_RETRY_S: Final = 0.2
_ATTEMPTS: Final = 5
"""The most snapshots to begin.  The leader may delete each one before it is copied."""
BASE: Final = ".base"
"""Ends the name of the snapshot on which a later one is based."""


@attrs.frozen
class SavedSnapshot:
    """A snapshot that is whole and durable at `path`."""

    path: str
    cluster_id: str | None
    summary: SnapshotSummary


class SnapshotSaver:
    """Copies the newest snapshot of a quorum's leader; of Kafka's controllers, what they have committed up to now.

    Kafka takes snapshots when it wants to.  So its newest one is read, and the log behind it up to the high watermark,
    and a snapshot that ends there is written.

    After a lost connection or a change of the leader, the copy continues, because a snapshot has the same bytes on all
    replicas.  If the leader no longer has the snapshot, the copy starts again with the newest one.
    """

    def __init__(
        self, bootstrap: Sequence[Endpoint], *, request_timeout_ms: int = 5000, network: Network | None = None
    ) -> None:
        """`bootstrap` is any nodes of the quorum, ours or Apache Kafka's.  Raises ValueError if it is empty."""
        self._request_timeout_ms = request_timeout_ms
        self._finder = LeaderFinder(
            bootstrap,
            "kraft-snapshot",
            request_timeout_ms=request_timeout_ms,
            network=TcpNetwork() if network is None else network,
        )

    async def save(
        self,
        disk: Disk,
        directory: str,
        name: str | None = None,
        *,
        timeout_ms: int = 30_000,
        chunk_bytes: int = 1024 * 1024,
        progress: Callable[[int, int], object] = lambda _position, _size: None,
    ) -> SavedSnapshot:
        """Copy the newest snapshot into a directory.  The file is checked and durable when this returns.

        Without `name`, the file has the name that the snapshot has on a node.  Until the copy is whole, it is
        `<name>.part`, which a cancelled or failed call removes.  Kafka's older snapshot is in `<its name>.base.part`
        meanwhile.  `timeout_ms` is the longest time without new bytes.
        `progress` is called with the number of bytes copied and the size.  Raises

        - StorageError if the file exists or cannot be written,
        - RefusedError if the leader has no snapshot or refuses,
        - NetworkError if no leader sends the snapshot,
        - CorruptSnapshotError if the copy is damaged.
        """
        if name is not None:
            refuse_existing(disk, join(directory, name))
        copy = _Copy(self, disk, directory, name)
        deadline = trio.current_time() + timeout_ms / 1000
        attempts_left = _ATTEMPTS
        cluster_id, is_read = None, False

        def on_progress(position: int, size: int) -> None:
            nonlocal deadline
            progress(position, size)
            deadline = trio.current_time() + timeout_ms / 1000

        try:
            while not is_read:
                try:
                    async with aclosing(await self._finder.find()) as leader:
                        cluster_id = leader.cluster_id
                        await copy.read(leader, chunk_bytes, on_progress)
                        is_read = True
                except NetworkError as error:
                    if trio.current_time() + _RETRY_S > deadline:
                        raise NetworkError(f"snapshot not saved: {error}") from error
                    await trio.sleep(_RETRY_S)
                except ProtocolError as error:
                    # The leader lacks the snapshot, or has another one with its id: start again with the newest.
                    attempts_left -= 1
                    if not attempts_left:
                        raise NetworkError(f"snapshot not saved, in {_ATTEMPTS} attempts: {error}") from error
                    await copy.abandon()
                    copy = _Copy(self, disk, directory, name)
            path, summary = await copy.finish()
        finally:
            await copy.abandon()
        return SavedSnapshot(path, cluster_id, summary)

    async def newest(self, leader: LeaderConnection) -> OffsetAndEpoch | None:
        """The id of the leader's newest snapshot; None if Kafka's controllers have none, and so all of their log.

        Raises RefusedError if another leader has none, and NetworkError.
        """
        if REPLICA_SNAPSHOTS.key in leader.connection.peer_versions:
            told = await ask_for_snapshots(
                leader.connection, leader.endpoint, ReplicaSnapshotsRequest(), self._request_timeout_ms
            )
            newest = told.snapshots[-1].snapshot_id if told.snapshots else None
        else:
            # Kafka's leader offers its newest snapshot to a reader that has nothing yet.
            newest = (await leader.fetch(0, max_bytes=1, last_fetched_epoch=0)).snapshot_id
        if newest is None and not _is_kafkas(leader):
            raise RefusedError(
                f"{leader.endpoint}: the leader has no snapshot (kraft snapshot take has it take one, where it has a "
                "state machine)"
            )
        return newest


class _Copy:
    """One attempt, from the leaders that come and go."""

    def __init__(self, saver: SnapshotSaver, disk: Disk, directory: str, name: str | None) -> None:
        self._saver = saver
        self._disk = disk
        self._directory = directory
        self._name = name
        self._download: SnapshotDownload | None = None
        """None before the first answer, and of Kafka's controllers that have no snapshot."""
        self._follows_log = False
        self._tail: MetadataTail | None = None

    async def read(self, leader: LeaderConnection, chunk_bytes: int, progress: Callable[[int, int], object]) -> None:
        """Read what is not here yet.  Raises what `save` raises, and ProtocolError if the leader has something else."""
        if self._download is None and self._tail is None:
            self._follows_log = _is_kafkas(leader)
            self._begin(await self._saver.newest(leader))
        if self._download is not None:
            while not self._download.is_complete:
                at = self._download.position
                chunk = await snapshot_piece(leader, self._download.snapshot_id, at, max_bytes=chunk_bytes)
                await self._download.append(chunk.position, chunk.unaligned_records, chunk.size)
                progress(self._download.position, chunk.size)
            if self._follows_log and self._tail is None:
                self._tail = MetadataTail(self._download.snapshot_id, state_of(self._download))
        if self._tail is not None:
            await self._tail.read(leader)

    def _begin(self, newest: OffsetAndEpoch | None) -> None:
        if newest is None:
            self._tail = MetadataTail(OffsetAndEpoch(0, 0), NOTHING)
            return
        name = f"{self._name or checkpoint_name(newest)}{BASE}" if self._follows_log else self._name
        self._download = _download(self._disk, self._directory, name, newest)

    async def finish(self) -> tuple[str, SnapshotSummary]:
        """Make the file durable under its name."""
        if self._tail is not None:
            return await write_later_snapshot(self._disk, self._directory, self._name, self._download, self._tail)
        assert self._download is not None, "nothing was read"
        return self._download.path, await self._download.finish()

    async def abandon(self) -> None:
        """Remove what is unfinished."""
        if self._download is not None:
            await self._download.abandon()


def _is_kafkas(leader: LeaderConnection) -> bool:
    """Whether it is one of Kafka's controllers, whose log has metadata records."""
    return REPLICA_SNAPSHOTS.key not in leader.connection.peer_versions and leader.topic_name == METADATA_TOPIC


def _download(disk: Disk, directory: str, name: str | None, snapshot_id: OffsetAndEpoch) -> SnapshotDownload:
    """Start a download.  Raises StorageError if the file exists or cannot be created, and DiskFullError."""
    download_name = checkpoint_name(snapshot_id) if name is None else name
    refuse_existing(disk, join(directory, download_name))
    try:
        return SnapshotDownload(disk, directory, snapshot_id, name=download_name, spared_bytes=0)
    except DiskFullError:
        raise
    except StorageFailure as error:
        # Nothing has been written yet: the place is unsuitable, but no disk has failed.
        raise StorageError(str(error)) from error
