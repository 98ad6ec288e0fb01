"""The file `boot-counter`."""

from __future__ import annotations

import pytest

from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.boot_counter import BootCounter

PATH = "/data/boot-counter"


def counter(disk: SimulatedDisk) -> BootCounter:
    disk.make_directory("/data")
    return BootCounter(disk, "/data")


async def test_a_number_counts_once_it_is_durable(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    counted = counter(disk)
    assert counted.value == 0
    await counted.raise_to(7)
    assert counted.value == 7
    disk.crash("all")
    assert counter(disk).value == 7


async def test_a_number_that_is_not_written_does_not_count(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    counted = counter(disk)
    await counted.raise_to(7)
    disk.fail("rename", name="boot-counter")
    with pytest.raises(OSError, match="boot-counter"):
        await counted.raise_to(8)
    assert counted.value == 7
    assert counter(disk).value == 7


async def test_a_damaged_counter_begins_again(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    await counter(disk).raise_to(7)
    for at in range(len(disk.read_bytes(PATH))):
        damaged = disk.copy()
        damaged.damage(PATH, at)
        assert counter(damaged).value == 0


async def test_a_counter_never_falls(autojump_clock: object) -> None:
    counted = counter(SimulatedDisk())
    await counted.raise_to(7)
    with pytest.raises(AssertionError):
        await counted.raise_to(7)
