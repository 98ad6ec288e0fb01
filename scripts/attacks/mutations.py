"""Valid requests of every API with random changes."""

from __future__ import annotations

import random

from kraft_trio.wire.api import APIS
from scripts.attacks.arena import LISTENERS, Arena, framed, refusable
from scripts.attacks.arrays import frames

EACH = 100
ANOTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
INTEGERS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff\x07")


def play(arena: Arena) -> None:
    """Each frame on a connection of its own.

    On the listener of the controllers as a stranger who does not know the cluster's id: who knows it may vote there.
    """
    cluster_ids = {"CLIENT": arena.quorum.cluster_id, "CONTROLLER": ANOTHER_CLUSTER}
    for listener in LISTENERS:
        for api in APIS.values():
            for version in {api.min_version, api.max_version}:
                sound = [frame[4:] for frame in frames(api, version, cluster_ids[listener], 2)] or [b"\0" * 20]
                for _ in range(arena.count(EACH, EACH // 30)):
                    body = mutated(arena.random, arena.random.choice(sound))
                    with refusable(), arena.connect(listener, seconds=2) as connection:
                        connection.send_bytes(framed(body))
                        connection.end_sending()
                        connection.drain()


def mutated(random: random.Random, body: bytes) -> bytes:
    """One to three changes behind API key and version."""
    changed = bytearray(body)
    for _ in range(random.randint(1, 3)):
        position = random.randrange(4, len(changed) + 1)
        match random.randrange(5):
            case 0:
                del changed[position:]
            case 1:
                changed[position:position] = random.randbytes(random.randint(1, 20))
            case 2:
                changed[position : position + 4] = random.choice(INTEGERS)
            case 3:
                del changed[position : position + random.randint(1, 8)]
            case _:
                changed[position : position + 1] = bytes([random.randrange(256)])
        changed.extend(b"\0" * (8 - len(changed)))
    return bytes(changed)
