"""A million producers, each with one batch, so that the log remembers as many as it ever does."""

from __future__ import annotations

from contextlib import ExitStack

from scripts.attacks.arena import Arena
from scripts.attacks.producer_ids import batch_of
from scripts.attacks.requests import produce_frame

CONNECTIONS = 4
AT_ONCE = 50
"""Unanswered requests of one connection."""


def play(arena: Arena) -> None:
    """Send a batch in the name of each, and wait for its answer: it is appended, or refused."""
    left = arena.count(1_000_000, 2_000)
    with ExitStack() as stack:
        connections = [stack.enter_context(arena.introduced()) for _ in range(CONNECTIONS)]
        while left > 0:
            for connection in connections:
                connection.send_bytes(
                    b"".join(produce_frame(batch_of(arena.random.getrandbits(62))) for _ in range(AT_ONCE))
                )
                arena.sent.frames += AT_ONCE - 1
            for connection in connections:
                assert connection.wait_for_answers(AT_ONCE) == AT_ONCE, "a batch was not answered"
            left -= CONNECTIONS * AT_ONCE
