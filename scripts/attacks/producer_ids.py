"""Thousands of producer ids, and batches in the names of other producers."""

from __future__ import annotations

from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.api import INIT_PRODUCER_ID
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest
from scripts.attacks.arena import Arena, frame_of, refusable
from scripts.attacks.requests import produce_frame

AT_ONCE = 50


def play(arena: Arena) -> None:
    """First many ids and many producers, then sequences ahead of those that get ids next: duplicates, if guessed."""
    ask = frame_of(INIT_PRODUCER_ID, InitProducerIdRequest()) * AT_ONCE
    with refusable(), arena.connect() as connection:
        for _ in range(arena.count(400, 20)):
            connection.send_bytes(ask)
            arena.sent.frames += AT_ONCE - 1
            connection.wait_for_answers(AT_ONCE)
        for _ in range(arena.count(5_000, 200)):
            connection.send_bytes(produce_frame(batch_of(arena.random.getrandbits(63))))
            connection.wait_for_answers()
    with arena.connect() as connection:
        known = connection.request(INIT_PRODUCER_ID, InitProducerIdRequest()).producer_id
        for guess in range(known + 1, known + arena.count(200, 40)):
            connection.send_bytes(produce_frame(batch_of(guess % 2**63)))
            connection.wait_for_answers()
        for _ in range(20):
            victim = connection.request(INIT_PRODUCER_ID, InitProducerIdRequest()).producer_id
            assert not known < victim < known + arena.count(200, 40), f"producer id {victim} was guessed from {known}"


def batch_of(producer_id: int) -> bytes:
    """One record in the name of that producer."""
    return encode_batch(
        [NewRecord(b"forged")], timestamp_ms=0, producer_id=producer_id, producer_epoch=0, base_sequence=0
    )
