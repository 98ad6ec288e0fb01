"""Reads the committed batches of Kafka's controllers from their leader, as a reader that is no replica."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, Record, check_crc
from kraft_trio.storage.batches.batch_header import BatchHeader, iter_headers, whole_batches_size
from kraft_trio.storage.batches.record_chunks import record_chunks
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.wire.error_codes import ErrorCode

PIECE_BYTES: Final = 1024 * 1024


@attrs.frozen
class CommittedBatch:
    """One sound batch at `position` of `data`."""

    data: Buffer
    position: int
    header: BatchHeader

    @property
    def next_place(self) -> OffsetAndEpoch:
        """The offset behind it, and its epoch."""
        return OffsetAndEpoch(self.header.next_offset, self.header.leader_epoch)

    def records(self) -> Iterator[list[Record]]:
        """In lists, each of which takes a few milliseconds at most.  Raises ProtocolError."""
        return record_chunks(self.data, self.position, self.header, DEFAULT_MAX_DECOMPRESSED_BYTES)


async def committed_batches(
    leader: LeaderConnection, place: OffsetAndEpoch, *, max_bytes: int
) -> tuple[list[CommittedBatch], int]:
    """The next batches behind `place`, in one answer, and the high watermark (exclusive).

    There are none if that is reached.  `place` is an offset (inclusive), and the epoch of the record before it.  Raises
    NetworkError, RefusedError, and ProtocolError if the leader's log does not have that place, or is malformed.
    """
    answer = await leader.fetch(place.offset, max_bytes=max_bytes, last_fetched_epoch=place.epoch)
    if answer.snapshot_id is not None or answer.diverging is not None or answer.error != ErrorCode.none:
        raise ProtocolError(f"Fetch: the leader's log does not have offset {place}")
    if place.offset >= answer.high_watermark:
        return [], answer.high_watermark
    size = whole_batches_size(answer.records)
    if not size:
        raise ProtocolError(f"Fetch at offset {place.offset}: nothing below the high watermark")
    data, found = answer.records[:size], []
    for position, header in iter_headers(data):
        if header.next_offset > answer.high_watermark:
            break  # Kafka sends what is not committed, too.
        check_crc(data, position, header)
        found.append(CommittedBatch(data, position, header))
    return found, answer.high_watermark
