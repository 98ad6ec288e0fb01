"""The recovery point on the device is a second behind at most: what was synced before that is never cut as a hole."""

from __future__ import annotations

import errno

import pytest
import trio

from kraft_trio.errors import CorruptLogError, StorageFailure
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.recovery_point import DURABLE_EVERY_S, decode_recovery_point
from tests.storage.support import DIRECTORY, FIRST_SEGMENT, batch, open_log

PATH = f"{DIRECTORY}/recovery-point"


def offset_on_device(disk: SimulatedDisk) -> int | None:
    content = disk.durable_bytes(PATH)
    record = None if content is None else decode_recovery_point(content)
    return None if record is None else record.synced_end_offset


async def test_it_is_made_durable_once_a_second_while_the_log_grows(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    on_device = []
    for _ in range(8):
        log.append_as_leader(batch(b"value"), 1)
        await log.sync()
        on_device.append(offset_on_device(disk))
        await trio.sleep(DURABLE_EVERY_S / 4)
    assert on_device == [0, 0, 0, 0, 5, 5, 5, 5]
    await log.close()


async def test_a_flipped_bit_after_power_loss_costs_no_synced_record(
    autojump_clock: object,
) -> None:
    """A record of zeros looks, with a bit flipped, as if a sector of it had never been written."""
    disk = SimulatedDisk()
    log = open_log(disk)
    for value in (b"a", bytes(2000), b"c", b"d"):
        log.append_as_leader(batch(value), 1)
        await log.sync()
        await trio.sleep(DURABLE_EVERY_S)
    disk.crash("all")
    disk.damage(FIRST_SEGMENT, 300)
    with pytest.raises(CorruptLogError, match="offset 1"):
        open_log(disk)


async def test_a_failure_to_make_it_durable_poisons_the_log(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.append_as_leader(batch(b"value"), 1)
    await log.sync()
    await trio.sleep(DURABLE_EVERY_S)
    disk.fail("sync", name="recovery-point", code=errno.EIO)
    log.append_as_leader(batch(b"value"), 1)
    with pytest.raises(StorageFailure, match=r"Input/output error|injected"):
        await log.sync()
    assert log.poisoned is not None


async def test_a_write_that_fails_in_the_background_fails_the_sync(autojump_clock: object) -> None:
    disk = SimulatedDisk(sync_latency=lambda: 1.0)
    log = open_log(disk)
    for _ in range(2):
        log.append_as_leader(batch(b"value"), 1)
        await log.sync()
    await trio.sleep(DURABLE_EVERY_S)
    log.append_as_leader(batch(b"value"), 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails_to_sync, log)
        await trio.sleep(1.5)
        assert log.synced_end_offset == 3, "the log is durable, the recovery point is under way"
        disk.fail("append")
        with pytest.raises(StorageFailure):
            log.append_as_leader(batch(b"value"), 1)


async def fails_to_sync(log: Log) -> None:
    with pytest.raises(StorageFailure):
        await log.sync()
