"""Idle connections in every place, while a voter must return."""

from __future__ import annotations

from contextlib import ExitStack

from scripts.attacks.arena import LISTENERS, Arena, refusable
from scripts.attacks.quorum import AttackedQuorum
from scripts.attacks.requests import versions_frame

OPEN_FILES = ("prlimit", "--nofile=256:256")
CONNECTIONS = 300


def start(quorum: AttackedQuorum) -> None:
    for node in quorum.nodes.values():
        node.start(prefix=OPEN_FILES)


def play(arena: Arena) -> None:
    """Take what the leader gives on both listeners, then restart a follower: it must find its way to the leader."""
    with ExitStack() as open_connections:
        for number in range(CONNECTIONS):
            for listener in LISTENERS:
                with refusable():
                    connection = open_connections.enter_context(arena.connect(listener, seconds=2))
                    if number % 2:
                        connection.send_bytes(versions_frame())
        follower = arena.followers[0]
        follower.kill()
        arena.wait_for_commits(20)
        arena.start_again(follower, prefix=OPEN_FILES)
