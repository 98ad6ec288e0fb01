"""The directory remembers that its incarnation was removed from the voters."""

from __future__ import annotations

from uuid import UUID

import pytest

from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.removal_marker import RemovalMarker

KEY = ReplicaKey(4, UUID(int=7))
PATH = "/data/t-0/removed-voter"


def marker(disk: SimulatedDisk, key: ReplicaKey = KEY) -> RemovalMarker:
    disk.make_directory("/data/t-0")
    return RemovalMarker(disk, "/data/t-0", key)


async def test_mark_survives_a_power_failure(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    assert not marker(disk).is_set
    await marker(disk).set()
    disk.crash("all")
    again = marker(disk)
    assert again.is_set
    again.clear()
    disk.crash("all")
    assert not marker(disk).is_set


async def test_mark_of_another_incarnation_does_not_count(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    await marker(disk).set()
    assert not marker(disk, ReplicaKey(4, UUID(int=8))).is_set


async def test_damaged_mark_counts(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    await marker(disk).set()
    for at in range(len(disk.read_bytes(PATH))):
        damaged = disk.copy()
        damaged.damage(PATH, at)
        assert marker(damaged).is_set
        assert marker(damaged, ReplicaKey(4, UUID(int=8))).is_set


async def test_mark_that_cannot_be_written_ends_the_node(autojump_clock: object) -> None:
    disk = SimulatedDisk()
    disk.make_directory("/data/t-0")
    disk.fail("rename", name="removed-voter")
    with pytest.raises(StorageFailure, match="removed-voter: cannot be written"):
        await marker(disk).set()
