"""The same bombs where a state machine reads every batch and a follower must read them again."""

from __future__ import annotations

from scripts.attacks import bombs, trim
from scripts.attacks.arena import Arena

SETTINGS = trim.SETTINGS


def play(arena: Arena) -> None:
    """Restart a follower behind them."""
    bombs.play(arena, every=10)
    follower = arena.followers[0]
    follower.kill()
    follower.start()
    follower.wait_until_listening()
    arena.wait_until_follows(follower)
