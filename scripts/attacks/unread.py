"""64 Fetches of maximum size on each of 20 connections that never read."""

from __future__ import annotations

from contextlib import ExitStack

from scripts.attacks.arena import Arena, refusable
from scripts.attacks.requests import fetch_frame, fill_log

CONNECTIONS = 20
FETCHES = 64
LOG_MEBIBYTES = 64


def play(arena: Arena) -> None:
    """Send everything, and leave it unread while the quorum continues for a while."""
    fill_log(arena, arena.count(LOG_MEBIBYTES, LOG_MEBIBYTES // 4))
    frames = fetch_frame(0) * FETCHES
    with ExitStack() as open_connections:
        for _ in range(CONNECTIONS):
            with refusable():
                open_connections.enter_context(arena.introduced()).send_bytes(frames)
        arena.wait_for_commits(arena.count(500, 100))
