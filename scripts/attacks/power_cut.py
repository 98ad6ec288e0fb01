"""Values that look like batches, then kill -9 of each follower and a torn batch at the end of its log."""

from __future__ import annotations

from kraft_trio.storage.batch import Compression, NewRecord, encode_batch
from scripts.attacks.arena import Arena
from scripts.attacks.requests import produce_frame
from tests.acceptance.node_process import NodeProcess

CUTS = (1, 30, 61, 70, 200, 1000)
"""How many bytes of the batch are there."""


def play(arena: Arena) -> None:
    """Each way to tear the last batch, on one follower after the other."""
    payload = hostile_batch(arena)
    for number, cut in enumerate(CUTS[:: arena.count(1, 3)]):
        follower = arena.followers[number % 2]
        arena.send(produce_frame(payload))
        arena.wait_until_follows(follower)
        follower.kill()
        tear(follower, payload, cut)
        arena.wait_for_commits(5)
        follower.start()
        follower.wait_until_listening()
        arena.wait_until_follows(follower)


def hostile_batch(arena: Arena) -> bytes:
    """A batch whose value is a run of sound batches at the offsets that come next."""
    end = arena.quorum.described_by_leader()[1].high_watermark
    inner = b"".join(
        encode_batch([NewRecord(b"x" * 50)], timestamp_ms=0, base_offset=end + n, leader_epoch=arena.epoch)
        for n in range(20)
    )
    return encode_batch([NewRecord(inner)], timestamp_ms=0, compression=Compression.NONE)


def tear(node: NodeProcess, batch: bytes, size: int) -> None:
    """Leave the start of a batch behind the last one, as a power cut does."""
    last = max(node.partition_directory.glob("*.log"))
    with last.open("ab") as log:
        log.write(batch[:size])
