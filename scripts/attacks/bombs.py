"""Small batches that expand to gigabytes, or to millions of headers or records."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.attacks.arena import Arena
from scripts.attacks.requests import produce_frame
from tests.support import bombs

LARGEST_BYTES = 1024 * 1024
"""message.max.bytes: what is larger is refused by its size, which is no attack."""


def play(arena: Arena, every: int = 5, key: bytes | None = None) -> None:
    """Send one Produce after the other and await each answer; a short attack sends one in `every` bombs.

    The bombs that a leader may accept have records with `key`.
    """
    for name, batch in _bombs(arena, every, key):
        if len(batch) <= LARGEST_BYTES:
            assert arena.send(produce_frame(batch), seconds=60), f"the bomb {name} was not answered"


def _bombs(arena: Arena, every: int, key: bytes | None) -> Iterator[tuple[str, bytes]]:
    for name in list(bombs.BOMBS)[:: arena.count(1, every)]:
        if not (arena.is_short and "tiny" in name):
            yield name, bombs.BOMBS[name]()
    for codec in bombs.CODECS:
        yield f"{codec.name.lower()} headers", bombs.many_headers(codec, 8_000_000)
        yield f"{codec.name.lower()} tiny records", bombs.tiny_records(codec, arena.count(200_000, 50_000), key)
