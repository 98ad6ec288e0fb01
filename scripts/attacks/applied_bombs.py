"""The same bombs where a state machine and a follower read them."""

from __future__ import annotations

from scripts.attacks import bombs, trim
from scripts.attacks.arena import Arena

SETTINGS = trim.SETTINGS


def play(arena: Arena) -> None:
    """Restart a follower behind them.

    Every record has the same key.  The state machine keeps all records without one, and the bound on memory is for
    what the node needs in addition to the application's state.
    """
    bombs.play(arena, every=10, key=b"k")
    follower = arena.followers[0]
    follower.kill()
    arena.start_again(follower)
