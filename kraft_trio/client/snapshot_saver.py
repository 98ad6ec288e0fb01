"""Copies a committed snapshot of a running quorum into a file (KIP-630 "Fetch Snapshot")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

import attrs
import trio

from kraft_trio.client.connecting import ask
from kraft_trio.client.leader_connection import LeaderConnection, check_answer
from kraft_trio.client.leader_finder import LeaderFinder
from kraft_trio.client.replica_snapshots import ask_for_snapshots
from kraft_trio.errors import DiskFullError, NetworkError, ProtocolError, RefusedError, StorageError, StorageFailure
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.partition_files import checkpoint_name
from kraft_trio.storage.snapshot_download import SnapshotDownload
from kraft_trio.storage.snapshot_reader import SnapshotSummary
from kraft_trio.wire.api import FETCH_SNAPSHOT, REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork

_RETRY_S: Final = 0.2
_ATTEMPTS: Final = 5
"""The most snapshots to begin.  The leader may delete each one before it is copied."""
_TOOL: Final = -1
"""The replica id of a reader that is not a replica.  Its requests do not count as contact with a replica."""


@attrs.frozen
class SavedSnapshot:
    """A snapshot that is whole and durable at `path`."""

    path: str
    cluster_id: str | None
    summary: SnapshotSummary


class SnapshotSaver:
    """Copies the newest snapshot of a quorum's leader.

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
        `<name>.part`, which a cancelled or failed call removes.  `timeout_ms` is the longest time without new bytes.
        `progress` is called with the number of bytes copied and the size.  Raises

        - StorageError if the file exists or cannot be written,
        - RefusedError if the leader has no snapshot or refuses,
        - NetworkError if no leader sends the snapshot,
        - CorruptSnapshotError if the copy is damaged.
        """
        download: SnapshotDownload | None = None
        deadline = trio.current_time() + timeout_ms / 1000
        attempts_left = _ATTEMPTS
        cluster_id = None
        try:
            while download is None or not download.is_complete:
                try:
                    async with aclosing(await self._finder.find()) as leader:
                        cluster_id = leader.cluster_id
                        if download is None:
                            download = _download(disk, directory, name, await self._newest(leader))
                        while not download.is_complete:
                            chunk = await self._chunk(leader, download, chunk_bytes)
                            await download.append(chunk.position, chunk.unaligned_records, chunk.size)
                            progress(download.position, chunk.size)
                            deadline = trio.current_time() + timeout_ms / 1000
                except NetworkError as error:
                    if trio.current_time() + _RETRY_S > deadline:
                        raise NetworkError(f"snapshot not saved: {error}") from error
                    await trio.sleep(_RETRY_S)
                except ProtocolError as error:
                    # The leader lacks the snapshot, or has another one with its id: start again with the newest.
                    attempts_left -= 1
                    if not attempts_left:
                        raise NetworkError(f"snapshot not saved, in {_ATTEMPTS} attempts: {error}") from error
                    if download is not None:
                        await download.abandon()
                        download = None
            summary = await download.finish()
        finally:
            if download is not None:
                await download.abandon()
        return SavedSnapshot(download.path, cluster_id, summary)

    async def _newest(self, leader: LeaderConnection) -> OffsetAndEpoch:
        """The id of the leader's newest snapshot.  Raises RefusedError if the leader has none, and NetworkError."""
        if REPLICA_SNAPSHOTS.key in leader.connection.peer_versions:
            told = await ask_for_snapshots(
                leader.connection, leader.endpoint, ReplicaSnapshotsRequest(), self._request_timeout_ms
            )
            newest = told.snapshots[-1].snapshot_id if told.snapshots else None
        else:
            # Kafka's leader offers its newest snapshot to a reader that has nothing yet.
            newest = (await leader.fetch(0, max_bytes=1, last_fetched_epoch=0)).snapshot_id
        if newest is None:
            raise RefusedError(
                f"{leader.endpoint}: the leader has no snapshot (kraft snapshot take has it take one, where it has a "
                "state machine)"
            )
        return newest

    async def _chunk(
        self, leader: LeaderConnection, download: SnapshotDownload, chunk_bytes: int
    ) -> FetchSnapshotResponse:
        """Fetch the next bytes.  Raises NetworkError, RefusedError, ProtocolError if the leader lacks the snapshot."""
        request = FetchSnapshotRequest(
            cluster_id=leader.cluster_id,
            replica_id=_TOOL,
            max_bytes=chunk_bytes,
            topic=leader.topic_name,
            partition=0,
            current_leader_epoch=leader.epoch,
            snapshot_id=download.snapshot_id,
            position=download.position,
        )
        response = await ask(leader.connection, FETCH_SNAPSHOT, request, self._request_timeout_ms)
        error = response.error or response.partition_error
        if error in (ErrorCode.snapshot_not_found, ErrorCode.position_out_of_range):
            raise ProtocolError(f"snapshot {download.snapshot_id}: the leader answers {error.name.upper()}")
        check_answer(FETCH_SNAPSHOT.name, error)
        return response


def _download(disk: Disk, directory: str, name: str | None, snapshot_id: OffsetAndEpoch) -> SnapshotDownload:
    """Start a download.  Raises StorageError if the file exists or cannot be created, and DiskFullError."""
    download_name = checkpoint_name(snapshot_id) if name is None else name
    path = join(directory, download_name)
    if disk.exists(path):
        raise StorageError(f"{path}: already exists and is not overwritten")
    try:
        return SnapshotDownload(disk, directory, snapshot_id, name=download_name, spared_bytes=0)
    except DiskFullError:
        raise
    except StorageFailure as error:
        # Nothing has been written yet: the place is unsuitable, but no disk has failed.
        raise StorageError(str(error)) from error
