"""Megabytes of valid batches, pipelined on a dozen connections."""

from __future__ import annotations

import threading

from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from scripts.attacks.arena import Arena, Hostile, refusable
from scripts.attacks.requests import produce_frame

CONNECTIONS = 12
BATCH_BYTES = 1_000_000


def play(arena: Arena) -> None:
    """Half of them do not wait for the quorum (acks=0 and 1)."""
    batch = encode_batch([NewRecord(bytes(BATCH_BYTES))], timestamp_ms=0)
    frames = [produce_frame(batch, acks) for acks in (-1, 0, -1, 1)]
    each = arena.count(40, 5)
    threads = [
        threading.Thread(target=_produce, args=(arena, frames[number % len(frames)], each))
        for number in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _produce(arena: Arena, frame: bytes, count: int) -> None:
    with refusable(), arena.introduced() as connection:
        reader = threading.Thread(target=_read_all, args=(connection,))
        reader.start()
        with refusable():
            for _ in range(count):
                connection.send_bytes(frame)
            connection.end_sending()
        reader.join()


def _read_all(connection: Hostile) -> None:
    with refusable():
        connection.drain()
