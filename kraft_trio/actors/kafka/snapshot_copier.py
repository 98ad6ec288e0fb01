"""Copies the snapshots of Apache Kafka's controllers to a witness, which takes none, so that its log can be trimmed."""

from __future__ import annotations

from typing import Final, TypeVar

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.replica_fetch import fetch_snapshot_request
from kraft_trio.errors import (
    CorruptSnapshotError,
    DiskFullError,
    NetworkError,
    ProtocolError,
    UnsupportedVersionError,
)
from kraft_trio.logs import get_logger
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.wire.api import Api
from kraft_trio.wire.apis.fetch import FETCH, FetchPartition, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT, FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

INTERVAL_S: Final = 60.0
"""How often the leader is asked, once the log is large enough to be trimmed."""

NOT_COPIED: Final = (NetworkError, ProtocolError, UnsupportedVersionError, CorruptSnapshotError)
"""Errors after which the copy is tried again."""


class SnapshotCopier:
    """Runs while a witness follows one leader.

    A controller offers its newest snapshot to a reader without a log (KIP-630).  If all that it covers is committed
    here, a copy of it is as good as a snapshot of this node's own.  LogCleaner then trims the log.
    """

    def __init__(self, context: EpochContext, role: Follower) -> None:
        self._context = context
        self._log = context.log
        self._endpoint = role.leader_endpoints.get(context.config.controller_listener_name)

    async def run(self) -> None:
        """Copy every new snapshot until cancelled.  Raises StorageFailure, which ends the node."""
        while True:
            await trio.sleep(INTERVAL_S)
            is_controller = self._context.controllers.versions_of(self._endpoint) is not None
            if is_controller and self._log.size_in_bytes >= self._context.config.snapshot_max_new_bytes:
                try:
                    await self._copy_newest()
                except NOT_COPIED as error:
                    log.info("snapshot not copied", endpoint=str(self._endpoint), reason=str(error))
                except DiskFullError as error:
                    if self._log.poisoned is not None:
                        raise
                    log.warning("no room for a snapshot", reason=str(error))

    async def _copy_newest(self) -> None:
        snapshot_id = await self._newest()
        if snapshot_id is None or not self._is_wanted(snapshot_id):
            return
        request = fetch_snapshot_request(self._context, snapshot_id)
        async with self._context.snapshot_fetch.copy_of(snapshot_id) as download:
            while not download.is_complete:
                piece = await self._ask_piece(attrs.evolve(request, position=download.position))
                await download.append(piece.position, piece.unaligned_records, piece.size)
            summary = await download.finish()
        self._log.add_snapshot(snapshot_id)
        log.info("snapshot copied", snapshot_id=str(snapshot_id), size_in_bytes=summary.size_in_bytes)

    def _is_wanted(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether it is newer than those that are here, and covers a part of this log that is committed."""
        high_watermark = self._log.high_watermark
        if high_watermark is None or not self._log.log_start_offset < snapshot_id.offset <= high_watermark:
            return False
        try:
            return self._log.next_snapshot_id(snapshot_id.offset) == snapshot_id
        except ValueError as error:
            raise ProtocolError(str(error)) from error

    async def _newest(self) -> OffsetAndEpoch | None:
        """The newest snapshot of the leader; None if it has none.

        Raises NetworkError, UnsupportedVersionError, and ProtocolError if the leader does not answer what was asked.
        """
        config = self._context.config
        partition = FetchPartition(
            topic_name=config.topic_name,
            topic_id=config.topic_id,
            partition=0,
            fetch_offset=0,
            max_bytes=1,
            current_leader_epoch=self._context.epoch,
            last_fetched_epoch=0,
        )
        # Not as this replica: the leader would believe that it has lost its log.
        request = FetchRequest(self._context.cluster_id, max_wait_ms=0, max_bytes=1, partitions=(partition,))
        response = await self._ask(FETCH, request)
        if response.error != ErrorCode.none:
            return None
        if len(response.partitions) != 1:
            raise ProtocolError(f"Fetch: answered for {len(response.partitions)} partitions, 1 was asked for")
        [answer] = response.partitions
        return None if answer.error != ErrorCode.none else answer.snapshot_id

    async def _ask_piece(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Raises NetworkError, UnsupportedVersionError, and ProtocolError if the leader sends no piece."""
        response = await self._ask(FETCH_SNAPSHOT, request)
        error = response.error or response.partition_error
        if error != ErrorCode.none:
            raise ProtocolError(f"snapshot {request.snapshot_id}: the leader answers {error.name.upper()}")
        return response

    async def _ask(self, api: Api[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Over a connection of its own: fetches continue meanwhile."""
        if self._endpoint is None:
            raise NetworkError("it is not known where the leader listens")
        return await self._context.client.request_apart(
            self._endpoint, api, request, self._context.config.request_timeout_ms
        )
