"""Encodes a batch of one large record in short steps, without copying its value.

The record comes from the application's state, or from a log that Apache Kafka has written.
"""

from __future__ import annotations

from typing import Final

import trio
from crc32c import crc32c

from kraft_trio.storage.batches.batch import NewRecord, encode_records_apart
from kraft_trio.storage.batches.batch_header import (
    CRC_START,
    FRAME_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    set_crc,
)

PIECE_BYTES: Final = 1024 * 1024
"""To checksum or write so many bytes takes about a millisecond."""


async def encode_large_record(
    record: NewRecord, *, timestamp_ms: int, base_offset: int, leader_epoch: int
) -> list[memoryview]:
    """Return the batch, equal to that of `encode_batch`, in pieces of at most PIECE_BYTES.

    Checkpoints after each piece.  Raises TypeError for a key or value that is not bytes.
    """
    encoded, base_timestamp_ms, max_timestamp_ms = encode_records_apart([record], timestamp_ms)
    parts = [memoryview(part) for part in encoded]
    if any(part.itemsize != 1 for part in parts):
        raise TypeError("record: a value of items that are larger than bytes, expected bytes")
    header = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_BYTES - FRAME_BYTES + sum(map(len, parts)),
            leader_epoch,
            MAGIC,
            0,
            0,
            0,
            base_timestamp_ms,
            max_timestamp_ms,
            NO_PRODUCER_ID,
            -1,
            -1,
            1,
        )
    )
    pieces = [part[start : start + PIECE_BYTES] for part in parts for start in range(0, len(part), PIECE_BYTES)]
    crc = crc32c(memoryview(header)[CRC_START:])
    for piece in pieces:
        crc = crc32c(piece, crc)
        await trio.lowlevel.checkpoint()
    set_crc(header, crc)
    return [memoryview(header), *pieces]
