"""What a crash of the simulated disk takes, and what it must leave."""

from __future__ import annotations

import errno
import random

import pytest
import trio
import trio.testing

from kraft_trio.storage.simulated_disk import SimulatedDisk
from kraft_trio.storage.simulated_file import SimulatedFile


def disk_with_file(seed: int = 0, latency: float = 0.0) -> tuple[SimulatedDisk, SimulatedFile]:
    disk = SimulatedDisk(random.Random(seed), sync_latency=lambda: latency)
    disk.make_directory("/d")
    file = disk.open("/d/a", create=True)
    disk.sync_directory("/d")
    return disk, file


def test_a_crash_loses_what_was_not_synced_and_nothing_else() -> None:
    disk, file = disk_with_file()
    file.append(b"synced")
    file.sync_now()
    file.append(b"not")
    disk.crash(lose_everything_unsynced=True)
    assert disk.read_bytes("/d/a") == b"synced"


@pytest.mark.parametrize("seed", range(30))
def test_a_random_crash_keeps_a_prefix_of_the_changes_perhaps_torn(seed: int) -> None:
    disk, file = disk_with_file(seed)
    file.append(b"synced")
    file.sync_now()
    file.append(b"one")
    file.append(b"two")
    disk.crash()
    left = disk.read_bytes("/d/a").rstrip(b"\0")
    assert b"syncedonetwo".startswith(left)
    assert left.startswith(b"synced")


def test_random_crashes_keep_all_nothing_and_torn_writes() -> None:
    seen = set()
    for seed in range(100):
        disk, file = disk_with_file(seed)
        file.append(b"123")
        disk.crash()
        seen.add(disk.read_bytes("/d/a"))
    assert {b"", b"123", b"12", b"1\0\0"} <= seen


def test_an_unsynced_truncation_may_be_undone_by_a_crash() -> None:
    disk, file = disk_with_file()
    file.append(b"123456")
    file.sync_now()
    file.truncate(2)
    disk.crash(lose_everything_unsynced=True)
    assert disk.read_bytes("/d/a") == b"123456"


def test_names_come_back_or_vanish_unless_their_directory_was_synced() -> None:
    disk, _ = disk_with_file()
    disk.open("/d/new", create=True)
    disk.rename("/d/a", "/d/b")
    disk.crash(lose_everything_unsynced=True)
    assert disk.list_directory("/d") == ["a"]
    disk.rename("/d/a", "/d/b")
    disk.sync_directory("/d")
    disk.crash(lose_everything_unsynced=True)
    assert disk.list_directory("/d") == ["b"]


def test_a_durable_replacement_survives_and_the_other_kind_may_not() -> None:
    disk, _ = disk_with_file()
    disk.replace_now("/d/q", b"1")
    disk.replace_now("/d/q", b"2", durable=False)
    disk.crash(lose_everything_unsynced=True)
    assert disk.read_bytes("/d/q") == b"1"


async def test_a_sync_covers_what_was_there_when_it_began(autojump_clock: trio.testing.MockClock) -> None:
    disk, file = disk_with_file(latency=1.0)
    file.append(b"before")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        file.append(b"during")
    disk.crash(lose_everything_unsynced=True)
    assert disk.read_bytes("/d/a") == b"before"


async def test_a_cancelled_sync_lasts_as_long_as_any(autojump_clock: trio.testing.MockClock) -> None:
    disk, file = disk_with_file(latency=5.0)
    file.append(b"1")
    with trio.move_on_after(1):
        await file.sync()
    assert trio.current_time() == 5.0
    disk.crash(lose_everything_unsynced=True)
    assert disk.read_bytes("/d/a") == b"1"


async def test_a_sync_that_a_crash_overtakes_makes_nothing_durable(autojump_clock: trio.testing.MockClock) -> None:
    disk, file = disk_with_file(latency=1.0)
    file.append(b"1")

    async def sync() -> None:
        with pytest.raises(OSError, match="crashed"):
            await file.sync()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync)
        await trio.testing.wait_all_tasks_blocked()
        disk.crash(lose_everything_unsynced=True)
    assert disk.read_bytes("/d/a") == b""


def test_files_and_locks_of_before_a_crash_are_dead() -> None:
    disk, file = disk_with_file()
    old = disk.lock("/d/.lock")
    disk.crash()
    with pytest.raises(OSError, match="crashed"):
        file.append(b"1")
    new = disk.lock("/d/.lock")
    old.release()
    assert disk.locked == {"/d/.lock"}
    new.release()
    assert not disk.locked


def test_a_failed_sync_loses_its_changes_although_later_ones_succeed() -> None:
    disk, file = disk_with_file()
    file.append(b"abc")
    disk.fail("sync", name="a")
    with pytest.raises(OSError, match="injected") as caught:
        file.sync_now()
    assert caught.value.errno == errno.EIO
    file.append(b"def")
    file.sync_now()
    assert file.read_at(0, 10) == b"abcdef"
    file.forget_cached(0)
    assert file.read_at(0, 10) == b"\0\0\0def"
    disk.crash(lose_everything_unsynced=True)
    assert disk.read_bytes("/d/a") == b"\0\0\0def"


def test_bytes_that_a_failed_sync_lost_at_the_end_are_zeros_to_the_next_process_until_it_cuts_them() -> None:
    disk, file = disk_with_file()
    file.append(b"kept")
    file.sync_now()
    file.append(b"lost")
    disk.fail("sync")
    with pytest.raises(OSError, match="injected"):
        file.sync_now()
    disk.kill()
    file = disk.open("/d/a")
    assert file.read_at(0, 10) == b"keptlost"
    file.sync_now()
    file.forget_cached(4)
    assert (file.size(), file.read_at(0, 10)) == (8, b"kept\0\0\0\0")
    assert disk.durable_bytes("/d/a") == b"kept"
    file.truncate(4)
    file.append(b"new")
    assert file.read_at(0, 10) == b"keptnew"


def test_a_failure_asked_for_hits_that_call_on_that_file_that_often() -> None:
    disk, file = disk_with_file()
    disk.fail("append", name="a", code=errno.ENOSPC, times=2)
    other = disk.open("/d/b", create=True)
    other.append(b"1")
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            file.append(b"1")
        assert caught.value.errno == errno.ENOSPC
    file.append(b"2")
    assert file.read_at(0, 10) == b"2"


def test_the_hook_sees_every_call_and_may_crash_the_disk_there() -> None:
    disk, file = disk_with_file()
    calls: list[tuple[str, str]] = []

    def hook(operation: str, path: str) -> None:
        calls.append((operation, path))
        if operation == "sync":
            disk.crash(lose_everything_unsynced=True)

    disk.hook = hook
    file.append(b"1")
    with pytest.raises(OSError, match="crashed at sync"):
        file.sync_now()
    disk.hook = None
    assert calls == [("append", "/d/a"), ("sync", "/d/a")]
    assert disk.read_bytes("/d/a") == b""


def test_a_killed_process_leaves_unsynced_bytes_to_the_next_one() -> None:
    disk, file = disk_with_file()
    file.append(b"1")
    disk.kill()
    with pytest.raises(OSError, match="crashed"):
        file.append(b"2")
    assert disk.open("/d/a").read_at(0, 10) == b"1"


def test_damage_stays_after_a_crash() -> None:
    disk, file = disk_with_file()
    file.append(b"\x00\x00")
    file.sync_now()
    disk.damage("/d/a", 1, 0x80)
    disk.crash()
    assert disk.read_bytes("/d/a") == b"\x00\x80"
