"""Reads which brokers are registered out of the metadata of Apache Kafka's controllers.

The newest snapshot has the brokers near its beginning, so its first bytes suffice.  The records behind it follow, and
the next question continues from there.  What one question may read is bounded.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import attrs
import trio

from kraft_trio.client.committed_log import PIECE_BYTES, CommittedBatch, committed_batches
from kraft_trio.client.connecting import drop, open_connection
from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.node_answer import DEFAULT_TOPIC, DEFAULT_TOPIC_ID
from kraft_trio.client.snapshot_piece import snapshot_piece
from kraft_trio.config.values import parse_endpoint
from kraft_trio.diagnosis.findings.controllers import is_controller
from kraft_trio.diagnosis.quorum_situation import Situation
from kraft_trio.errors import NetworkError, ProtocolError, RefusedError, UnsupportedVersionError
from kraft_trio.protocol.kafka_cluster import FOLDED, ClusterFold, KafkaCluster
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.snapshots.snapshot_reader import SnapshotBatches
from kraft_trio.wire.metadata_frame import decode_metadata_frame
from kraft_trio.wire.network import Network

SNAPSHOT_BYTES: Final = 4 * 1024 * 1024
"""Of a snapshot, no more is read: it has the brokers before the topics, and some thousand of them fit."""
LOG_BYTES: Final = 32 * 1024 * 1024
"""Of the log, no more is read for one question: more than Kafka writes between two snapshots by default.  The next
question continues from there."""


class ClusterReader:
    """Asks the active controller.  One task may call; nothing is open between calls."""

    def __init__(self, network: Network, client_id: str) -> None:
        self._network = network
        self._client_id = client_id
        self._fold: ClusterFold | None = None
        self._read = OffsetAndEpoch(0, 0)
        """Up to where the fold is (exclusive), and the epoch of the last record in it."""

    async def look(self, situation: Situation, timeout_ms: int) -> Situation:
        """The situation with its cluster, read within `timeout_ms`.  As it is, if no controller of Kafka leads."""
        report = situation.report
        leader = next(
            (one for one in situation.answers if report is not None and one.node_id == report.leader_id), None
        )
        if report is None or leader is None or not is_controller(leader):
            return situation
        cluster = KafkaCluster(is_read=False)
        with trio.move_on_after(timeout_ms / 1000):
            try:
                cluster = await self.read(parse_endpoint(leader.endpoint), leader.cluster_id, report.epoch, timeout_ms)
            except RefusedError as error:
                cluster = KafkaCluster(is_read=False, problem=f"{error}, which asks for CLUSTER_ACTION")
            except (NetworkError, UnsupportedVersionError, ProtocolError):
                pass
        return attrs.evolve(situation, cluster=cluster)

    async def read(self, endpoint: Endpoint, cluster_id: str | None, epoch: int, timeout_ms: int) -> KafkaCluster:
        """Read on at the leader of that epoch; each of its answers may take `timeout_ms`.

        If its log has no place to continue from, its newest snapshot is read.  Raises NetworkError,
        UnsupportedVersionError, RefusedError, ProtocolError.
        """
        connection = await open_connection(self._network, endpoint, self._client_id, timeout_ms)
        try:
            leader = LeaderConnection(
                connection, endpoint, DEFAULT_TOPIC, DEFAULT_TOPIC_ID, timeout_ms, cluster_id=cluster_id, epoch=epoch
            )
            if self._fold is not None:
                with suppress(ProtocolError):
                    return self._fold.cluster(is_read=await self._catch_up(leader, self._fold))
                self._fold = None
            self._fold = await self._from_snapshot(leader)
            return self._fold.cluster(is_read=await self._catch_up(leader, self._fold))
        finally:
            await drop(connection)

    async def _from_snapshot(self, leader: LeaderConnection) -> ClusterFold:
        """What the beginning of the newest snapshot says; nothing without one."""
        fold = ClusterFold()
        # The leader offers its newest snapshot to a reader that has nothing yet.
        newest = (await leader.fetch(0, max_bytes=1, last_fetched_epoch=0)).snapshot_id
        self._read = newest or OffsetAndEpoch(0, 0)
        if newest is None:
            return fold
        source = _Beginning()
        batches: SnapshotBatches | None = None
        size = 1
        while len(source.data) < min(size, SNAPSHOT_BYTES):
            response = await snapshot_piece(leader, newest, len(source.data), max_bytes=PIECE_BYTES)
            if not response.unaligned_records:
                raise ProtocolError("FetchSnapshot: an empty piece")
            source.data += response.unaligned_records
            size = response.size
            batches = batches or SnapshotBatches(size, newest.epoch)
            while (batch := batches.next(source, len(source.data))) is not None:
                await _add(fold, CommittedBatch(batch.data, 0, batch.header))
        return fold

    async def _catch_up(self, leader: LeaderConnection, fold: ClusterFold) -> bool:
        """Read the log up to the high watermark, or as far as is allowed.  Returns whether that is reached."""
        left = LOG_BYTES
        while left > 0:
            batches, _ = await committed_batches(leader, self._read, max_bytes=PIECE_BYTES)
            if not batches:
                return True
            for batch in batches:
                await _add(fold, batch)
                self._read = batch.next_place
                left -= batch.header.size_in_bytes
        return False


async def _add(fold: ClusterFold, batch: CommittedBatch) -> None:
    """Let others run after each piece of a batch."""
    for records in () if batch.header.is_control else batch.records():
        for record in records:
            frame = decode_metadata_frame(record.value or b"")
            if frame.api_key in FOLDED:
                fold.add(frame.api_key, frame.fields())
        await trio.lowlevel.checkpoint()


@attrs.define
class _Beginning:
    """The first bytes of a snapshot, in memory."""

    data: bytearray = attrs.field(factory=bytearray)

    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> Buffer:
        return bytes(self.data[position : position + size])
