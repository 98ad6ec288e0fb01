"""Garbage that nodes log to an unread pipe, a closed stderr and a full disk."""

from __future__ import annotations

import os

from scripts.attacks.arena import Arena, refusable
from scripts.attacks.quorum import AttackedQuorum

GARBAGE = b"\x00\x00\x00\x28" + b"\xff" * 40
UNREAD: list[int] = []
"""The reading end of the pipe that stalls; kept open as long as this process lives."""


def start(quorum: AttackedQuorum) -> None:
    stalled, closed, full = quorum.nodes.values()
    reading, writing = os.pipe()
    UNREAD.append(reading)
    with os.fdopen(writing, "wb") as pipe:
        stalled.start(stderr=pipe)
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        closed.start(stderr=pipe)
    with open("/dev/full", "wb", buffering=0) as device:
        full.start(stderr=device)
    quorum.wait_until_listening()
    os.close(reading)


def play(arena: Arena) -> None:
    """Far more lines than a pipe holds, on every node."""
    for _ in range(arena.count(2_000, 500)):
        for node in arena.nodes:
            with refusable(), arena.connect("CLIENT", node, seconds=2) as connection:
                connection.send_bytes(GARBAGE)
                connection.is_closed_by_peer()
