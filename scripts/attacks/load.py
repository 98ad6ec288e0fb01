"""Megabytes of valid batches, pipelined on a dozen connections."""

from __future__ import annotations

from functools import partial

from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from scripts.attacks.arena import Arena, refusable
from scripts.attacks.requests import produce_frame
from scripts.common.background import at_once

CONNECTIONS = 12
BATCH_BYTES = 1_000_000


def play(arena: Arena) -> None:
    """Half of them do not wait for the quorum (acks=0 and 1)."""
    batch = encode_batch([NewRecord(bytes(BATCH_BYTES))], timestamp_ms=0)
    frames = [produce_frame(batch, acks) for acks in (-1, 0, -1, 1)]
    each = arena.count(40, 5)
    at_once([partial(_produce, arena, frames[number % len(frames)], each) for number in range(CONNECTIONS)])


def _produce(arena: Arena, frame: bytes, count: int) -> None:
    with refusable(), arena.introduced() as connection, connection.throwing_away(), refusable():
        for _ in range(count):
            connection.send_bytes(frame)
        connection.end_sending()
