"""The smallest requests, pipelined without a pause."""

from __future__ import annotations

from functools import partial

from scripts.attacks.arena import Arena, refusable
from scripts.attacks.requests import fetch_frame, small_versions_frame
from scripts.common.background import at_once

CONNECTIONS = 4
REQUESTS = 400_000
AT_ONCE = 2_000


def play(arena: Arena) -> None:
    """Answers are read, and thrown away, by a thread for each connection."""
    for frame in (small_versions_frame(), fetch_frame(2**40)):
        each = arena.count(REQUESTS, REQUESTS // 20) // CONNECTIONS // 2
        at_once([partial(_flood, arena, frame, each)] * CONNECTIONS)


def _flood(arena: Arena, frame: bytes, count: int) -> None:
    with refusable(), arena.connect() as connection, connection.throwing_away(), refusable():
        for _ in range(count // AT_ONCE):
            connection.send_bytes(frame * AT_ONCE)
            arena.sent.frames += AT_ONCE - 1
        connection.end_sending()
