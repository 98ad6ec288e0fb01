"""The smallest requests, pipelined without a pause."""

from __future__ import annotations

import threading

from scripts.attacks.arena import Arena, Hostile, refusable
from scripts.attacks.requests import fetch_frame, small_versions_frame

CONNECTIONS = 4
REQUESTS = 400_000
AT_ONCE = 2_000


def play(arena: Arena) -> None:
    """Answers are read, and thrown away, by a thread for each connection."""
    for frame in (small_versions_frame(), fetch_frame(2**40)):
        each = arena.count(REQUESTS, REQUESTS // 20) // CONNECTIONS // 2
        threads = [threading.Thread(target=_flood, args=(arena, frame, each)) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _flood(arena: Arena, frame: bytes, count: int) -> None:
    with refusable(), arena.connect() as connection:
        reader = threading.Thread(target=_read_all, args=(connection,))
        reader.start()
        with refusable():
            for _ in range(count // AT_ONCE):
                connection.send_bytes(frame * AT_ONCE)
                arena.sent.frames += AT_ONCE - 1
            connection.end_sending()
        reader.join()


def _read_all(connection: Hostile) -> None:
    with refusable():
        connection.drain()
