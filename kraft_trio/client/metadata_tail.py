"""The committed metadata of Kafka's controllers behind their newest snapshot, for a snapshot that ends there."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from kraft_trio.client.committed_log import PIECE_BYTES, CommittedBatch, committed_batches
from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.protocol.metadata_transactions import TransactionFold
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import decode_control_batch
from kraft_trio.storage.batches.control_records import KRaftVersion, VotersRecord
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from kraft_trio.wire.metadata_frame import decode_metadata_frame

MAX_BYTES: Final = 256 * 1024 * 1024
"""Of the log, no more is read.  Kafka takes a snapshot after 20 MiB by default."""


class MetadataTail:
    """What a snapshot at `end` has more than the one at `start`.  One task reads.

    A snapshot is a sequence of records that is replayed like the log, so the log's records may follow those of the
    older snapshot in it.
    """

    def __init__(self, start: OffsetAndEpoch, state: ControlState) -> None:
        """`state` is that at `start`.  Both are zero and empty if there is no snapshot."""
        self.end = start
        """How far it reaches: an offset (exclusive), and the epoch of the record before it."""
        self.state = state
        """The state of the quorum there."""
        self.values: list[bytes] = []
        self._place = start
        self._state = state
        """What has been read so far: further than `end` while a transaction is open."""
        self._unsettled: list[bytes] = []
        self._fold = TransactionFold[bytes]()
        self._left_bytes = MAX_BYTES
        self._target: int | None = None

    async def read(self, leader: LeaderConnection) -> None:
        """Read up to the high watermark of the first answer.  After an error, it continues at the same or another
        leader.

        Raises NetworkError, RefusedError, and ProtocolError if the leader has no such log.
        """
        while self._left_bytes > 0 and (self._target is None or self._place.offset < self._target):
            batches, high_watermark = await committed_batches(leader, self._place, max_bytes=PIECE_BYTES)
            self._target = high_watermark if self._target is None else self._target
            if not batches:
                break
            for batch in batches:
                await self._add(batch)

    async def _add(self, batch: CommittedBatch) -> None:
        header = batch.header
        values: list[bytes] = []
        state = attrs.evolve(self._state, last_contained_log_timestamp_ms=header.max_timestamp_ms)
        if header.is_control:
            for _, record in decode_control_batch(batch.data, batch.position, header):
                if isinstance(record, KRaftVersion):
                    state = attrs.evolve(state, kraft_version=record.version)
                elif isinstance(record, VotersRecord):
                    state = attrs.evolve(state, voters=record.voters)
        else:
            frames = [record.value or b"" for records in batch.records() for record in records]
            values = [one for value in frames for one in self._fold.add(decode_metadata_frame(value).api_key, value)]
        # From here on in one step, because a cancelled call may be repeated.
        self._place, self._state = batch.next_place, state
        self._left_bytes -= header.size_in_bytes
        self._unsettled += values
        if not self._fold.is_open:
            self.values += self._unsettled
            self._unsettled = []
            self.end, self.state = self._place, state
        await trio.lowlevel.checkpoint()
