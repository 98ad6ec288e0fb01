"""5,000 connections that close and leave waiting Fetches behind."""

from __future__ import annotations

from scripts.attacks.arena import Arena, refusable
from scripts.attacks.requests import parked_fetch_frame

RECONNECTS = 5_000
FETCHES = 10


def play(arena: Arena) -> None:
    """One after the other, every second one by a reset."""
    frames = parked_fetch_frame(arena) * FETCHES
    for number in range(arena.count(RECONNECTS, RECONNECTS // 10)):
        with refusable():
            connection = arena.connect()
            connection.send_bytes(frames)
            if number % 2:
                connection.reset()
            else:
                connection.end_sending()
                connection.close()
