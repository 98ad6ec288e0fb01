"""Logs of a few small segments on simulated disks, for tests of snapshots, trims and truncations."""

from __future__ import annotations

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch_header import patch_base_offset_and_epoch
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.retention import RetentionLimits
from tests.storage.support import (
    DIRECTORY,
    batch,
    open_log,
    voters_batch,
)

SEGMENT_BYTES = 240
EVERYTHING = RetentionLimits(0, None)


def voters_of(*ids: int) -> VoterSet:
    return VoterSet([Voter(ReplicaKey(id)) for id in ids])


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    return disk


def reopened(disk: SimulatedDisk) -> Log:
    return open_log(disk, segment_bytes=SEGMENT_BYTES)


def files(disk: SimulatedDisk, suffix: str) -> list[str]:
    return [name for name in disk.peek_names(DIRECTORY) if name.endswith(suffix)]


def start_offsets(disk: SimulatedDisk) -> list[int]:
    return [int(name.partition(".")[0]) for name in files(disk, ".log")]


async def grown(disk: SimulatedDisk, count: int = 12, *, epoch: int = 1) -> Log:
    """Offset 0 has voters, then values, three to a segment; everything is synced and committed."""
    log = reopened(disk)
    log.append_as_leader(voters_batch(voters_of(1, 2), kraft_version=1), epoch)
    for number in range(count):
        log.append_as_leader(batch(b"%03d" % number), epoch)
    await log.sync()
    log.advance_high_watermark(log.end_offset)
    return log


def follow(log: Log, value: bytes | None, epoch: int, at: int | None = None) -> None:
    """What a leader sends: one value, or voters 1 and 9."""
    data = bytearray(batch(value) if value is not None else voters_batch(voters_of(1, 9)))
    patch_base_offset_and_epoch(data, 0, log.end_offset if at is None else at, epoch)
    log.append_as_follower(bytes(data))


def reopened_after_kill(disk: SimulatedDisk) -> Log:
    disk.kill()
    return reopened(disk)
