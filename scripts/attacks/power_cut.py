"""Values that look like batches, followed by kill -9 and a torn batch."""

from __future__ import annotations

from harness.node import NodeProcess
from harness.segments import written_bytes
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, iter_headers
from scripts.attacks.arena import Arena
from scripts.attacks.requests import produce_frame

CUTS = (1, 30, 61, 70, 300, 2000)
"""How many bytes of the last batch are there."""
PLAUSIBLE = 20


def play(arena: Arena) -> None:
    """Each way to tear the last batch, on one follower after the other."""
    for number, cut in enumerate(CUTS[2::3] if arena.is_short else CUTS):
        follower = arena.followers[number % 2]
        end = arena.quorum.described_by_leader()[1].high_watermark
        arena.send(produce_frame(hostile_batch(end, arena.epoch)))
        arena.wait_until_follows(follower)
        follower.kill()
        tear(follower, arena.epoch, cut)
        arena.wait_for_commits(5)
        arena.start_again(follower)


def hostile_batch(base_offset: int, leader_epoch: int) -> bytes:
    """A batch whose value is a run of sound batches that would continue the log behind it."""
    inner = b"".join(
        encode_batch(
            [NewRecord(b"x" * 50)], timestamp_ms=0, base_offset=base_offset + number, leader_epoch=leader_epoch
        )
        for number in range(1, PLAUSIBLE + 1)
    )
    return encode_batch([NewRecord(inner)], timestamp_ms=0, base_offset=base_offset, leader_epoch=leader_epoch)


def tear(node: NodeProcess, leader_epoch: int, size: int) -> None:
    """Leave the start of such a batch behind the last one, as a power cut does."""
    segment = max(node.partition_directory.glob("*.log"))
    written = written_bytes(segment)
    *_, (_, last) = iter_headers(written)
    torn = hostile_batch(last.base_offset + last.last_offset_delta + 1, leader_epoch)
    assert size < len(torn)
    with segment.open("r+b") as log:
        log.seek(len(written))
        log.write(torn[:size])
