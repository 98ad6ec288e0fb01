"""A writer chooses what is in a record: whole batches with right CRCs, too.  A torn batch stays a torn tail."""

from __future__ import annotations

import random

import pytest

from kraft_trio.errors import CorruptLogError
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.batches.batch_header import Compression
from kraft_trio.storage.checks.partition_check import check_partition
from kraft_trio.storage.disk.disk import SECTOR_BYTES
from kraft_trio.storage.segments import torn_tail
from tests.storage.support import DIRECTORY, FIRST_SEGMENT, RECOVERY_POINT, at, batch, open_log, stopped_disk, values_in

PROMISED = [b"one", b"x" * 300]


def hostile(inner: int, compression: Compression = Compression.NONE) -> bytes:
    """A batch for offset 2 whose values hold that many batches which could well come next in this log."""
    noise = random.Random(inner).randbytes(700)
    values = [part for number in range(inner) for part in (at(batch(b"inner"), 3 + number, 9), noise)]
    encoded = encode_batch([NewRecord(value) for value in values], timestamp_ms=0, compression=compression)
    return at(encoded, 2, 1)


def stopped_with(tail: bytes) -> SimulatedDisk:
    """The machine stopped when two values had been synced; `tail` is what the device has of what came after them."""
    disk, _ = stopped_disk(*PROMISED)
    disk.replace_now(FIRST_SEGMENT, disk.read_bytes(FIRST_SEGMENT) + tail)
    return disk


def without_sectors(log_bytes: bytes, start: int, missing: set[int]) -> bytes:
    """Those sectors never reached the device, as far as they lie at or behind `start`."""
    data = bytearray(log_bytes)
    for sector in missing:
        first, end = max(start, sector * SECTOR_BYTES), min(len(data), (sector + 1) * SECTOR_BYTES)
        data[first:end] = bytes(max(0, end - first))
    return bytes(data)


def assert_only_the_promised_is_there(disk: SimulatedDisk) -> None:
    assert damage_that_verify_finds(disk) == []
    assert values_in(open_log(disk)) == PROMISED


def damage_that_verify_finds(disk: SimulatedDisk) -> list[str]:
    return [problem for problem in check_partition(disk, DIRECTORY).problems if "quorum-state" not in problem]


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize("knows_recovery_point", [True, False])
@pytest.mark.parametrize("preallocated", [0, 4000])
def test_hostile_batch_cut_anywhere_is_a_torn_tail(
    compression: Compression, inner: int, knows_recovery_point: bool, preallocated: int
) -> None:
    whole = hostile(inner, compression)
    last = len(whole.rstrip(b"\0")) - 1 if preallocated else len(whole) - 1
    for cut in sorted({*range(1, last, 97), *range(55, 70), *range(last - 5, last + 1)}):
        disk = stopped_with(whole[:cut] + bytes(preallocated))
        if not knows_recovery_point:
            disk.remove(RECOVERY_POINT)
        assert_only_the_promised_is_there(disk)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("inner", [1, 3])
def test_hostile_batch_without_any_sector_is_a_torn_tail(compression: Compression, inner: int) -> None:
    whole = hostile(inner, compression)
    for padding in (0, 200, 410, 430):
        disk, _ = stopped_disk(b"one", b"x" * (300 + padding))
        promised = disk.read_bytes(FIRST_SEGMENT)
        later = at(batch(b"later", b"still later"), 2 + 2 * inner, 1)
        everything = promised + whole + later
        sectors = range(len(promised) // SECTOR_BYTES, (len(promised) + len(whole) - 1) // SECTOR_BYTES + 1)
        for missing in sectors:
            data = without_sectors(everything, len(promised), {missing})
            if data == everything:
                continue
            disk.replace_now(FIRST_SEGMENT, data)
            assert damage_that_verify_finds(disk) == []
            log = open_log(disk)
            assert log.end_offset == 2, (padding, missing)
            disk.kill()


def test_hostile_batch_cut_with_sectors_missing_is_a_torn_tail() -> None:
    whole = hostile(4)
    for seed in range(60):
        chance = random.Random(seed)
        start = len(stopped_with(b"").read_bytes(FIRST_SEGMENT))
        disk = stopped_with(whole[: chance.randrange(1, len(whole))])
        everything = disk.read_bytes(FIRST_SEGMENT)
        missing = {sector for sector in range(len(everything) // SECTOR_BYTES + 1) if chance.random() < 0.3}
        disk.replace_now(FIRST_SEGMENT, without_sectors(everything, start, missing))
        assert_only_the_promised_is_there(disk)


@pytest.mark.parametrize("byte", range(8, 12))
@pytest.mark.parametrize("following", [b"three", bytes(3000)])
def test_length_that_swallows_what_follows_is_damage(byte: int, following: bytes) -> None:
    """The batch is whole, so its end is known without its length; nothing of it is torn."""
    for bit in range(8):
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        position = log.size_in_bytes
        for value in (b"two", following, b"four"):
            log.append_as_leader(batch(value), 1)
        log._durability.sync_now()
        # The recovery point does not survive: what is behind it may have been promised all the same.
        disk.crash("all")
        disk.damage(FIRST_SEGMENT, position + byte, 1 << bit)
        with pytest.raises(CorruptLogError, match=rf"position {position}: .*not a torn tail"):
            open_log(disk)


def test_flipped_bit_of_a_whole_hostile_batch_is_damage() -> None:
    disk = stopped_with(hostile(2) + at(batch(b"later"), 6, 1))
    disk.damage(FIRST_SEGMENT, len(disk.read_bytes(FIRST_SEGMENT)) - 300)
    with pytest.raises(CorruptLogError, match="not a torn tail"):
        open_log(disk)


def test_nested_candidates_cost_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torn batch full of headers that each claim all that follows: their CRCs are not computed one by one."""
    claims = bytearray(at(batch(b"inner"), 3, 9)[:61])
    claims[8:12] = (40_000).to_bytes(4, "big")
    whole = at(batch(bytes(claims) * 2000), 2, 1)
    checked = 0
    real = torn_tail.crc32c

    def counted(data: memoryview) -> int:
        nonlocal checked
        checked += len(data)
        return real(data)

    monkeypatch.setattr(torn_tail, "crc32c", counted)
    assert_only_the_promised_is_there(stopped_with(whole[:-1]))
    assert checked <= 2 * len(whole)
