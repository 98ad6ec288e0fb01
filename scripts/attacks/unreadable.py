"""Batches that would stop other consumers: lz4 and zstd that Java cannot read, and false times."""

from __future__ import annotations

import lz4.frame
import zstandard

from harness.quorum import NO_TOPIC_ID, PRODUCE_BY_NAME, TOPIC
from kraft_trio.storage.batches.batch_header import Compression
from kraft_trio.storage.batches.varint import encode_varint
from kraft_trio.wire.api import PRODUCE
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode
from scripts.attacks.arena import Arena
from tests.support import bombs


def play(arena: Arena) -> None:
    """Each must be refused, because every consumer would meet it."""
    with arena.introduced() as connection:
        for name, batch in unreadable().items():
            request = ProduceRequest(-1, 4000, (ProducePartition(TOPIC, NO_TOPIC_ID, 0, batch),))
            [answer] = connection.request(PRODUCE, request, PRODUCE_BY_NAME).partitions
            assert answer.error is ErrorCode.invalid_record, f"{name} was answered {answer.error.name}"


def unreadable() -> dict[str, bytes]:
    first, second = (lz4.frame.compress(bombs.record(delta), block_linked=False) for delta in (0, 1))
    checksummed = zstandard.ZstdCompressor(write_checksum=True).compress(bombs.record(0))
    length = encode_varint(len(bombs.record(0)) - 1)
    wide = bytes([length[0] | 0x80]) + b"\x80" * 4 + b"\x00"
    return {
        "linked lz4 blocks": bombs.linked_blocks(),
        "two lz4 frames": bombs.batch_around(Compression.LZ4, first + second, 2),
        "a cut zstd checksum": bombs.batch_around(Compression.ZSTD, checksummed[:-1], 1),
        "a length of six bytes": bombs.batch_around(Compression.NONE, wide + bombs.record(0)[1:], 1),
        "a false time": bombs.later_than_its_records(),
    }
