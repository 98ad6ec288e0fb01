"""What a crash of the simulated disk takes, and what it must leave."""

from __future__ import annotations

import errno

import pytest
import trio
import trio.testing

from kraft_trio.simulation.disk.inode import Inode
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.disk.disk import SECTOR_BYTES
from tests.storage.support import disk_with_file


def test_a_crash_loses_what_was_not_synced_and_nothing_else() -> None:
    disk, file = disk_with_file()
    file.append(b"synced")
    file.sync_now()
    file.append(b"not")
    disk.crash("all")
    assert disk.read_bytes("/d/a") == b"synced"


@pytest.mark.parametrize("seed", range(30))
def test_a_random_crash_keeps_a_prefix_that_may_be_torn(seed: int) -> None:
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
    disk.crash("all")
    assert disk.read_bytes("/d/a") == b"123456"


def test_names_come_back_or_vanish_unless_the_directory_synced() -> None:
    disk, _ = disk_with_file()
    disk.open("/d/new", create=True)
    disk.rename("/d/a", "/d/b")
    disk.crash("all")
    assert disk.list_directory("/d") == ["a"]
    disk.rename("/d/a", "/d/b")
    disk.sync_directory("/d")
    disk.crash("all")
    assert disk.list_directory("/d") == ["b"]


def test_only_a_durable_replacement_must_survive() -> None:
    disk, _ = disk_with_file()
    disk.replace_now("/d/q", b"1")
    disk.replace_now("/d/q", b"2", durable=False)
    disk.crash("all")
    assert disk.read_bytes("/d/q") == b"1"


async def test_a_sync_covers_what_was_there_when_it_began(autojump_clock: trio.testing.MockClock) -> None:
    disk, file = disk_with_file(latency=1.0)
    file.append(b"before")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        file.append(b"during")
    disk.crash("all")
    assert disk.read_bytes("/d/a") == b"before"


async def test_a_cancelled_sync_lasts_as_long_as_any(autojump_clock: trio.testing.MockClock) -> None:
    disk, file = disk_with_file(latency=5.0)
    file.append(b"1")
    with trio.move_on_after(1):
        await file.sync()
    assert trio.current_time() == 5.0
    disk.crash("all")
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
        disk.crash("all")
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


def test_a_failed_sync_loses_its_changes_even_if_later_ones_pass() -> None:
    disk, file = disk_with_file()
    file.append(b"abc")
    disk.fail("sync", name="a")
    with pytest.raises(OSError, match="injected") as caught:
        file.sync_now()
    assert caught.value.errno == errno.EIO
    file.append(b"def")
    file.sync_now()
    assert file.read_at(0, 10) == b"abcdef"
    file.forget_cached()
    assert file.read_at(0, 10) == b"\0\0\0def"
    disk.crash("all")
    assert disk.read_bytes("/d/a") == b"\0\0\0def"


def test_a_write_during_a_failing_sync_keeps_its_whole_sector() -> None:
    """The page that was dirtied again holds both, and no device writes less than a sector."""
    inode = Inode()
    inode.write(0, b"x" * SECTOR_BYTES + b"lost, ")
    began_at = inode.changes_made
    inode.write(SECTOR_BYTES + 6, b"but for this")
    inode.settle(began_at, lost=True)
    inode.forget_cached()
    assert inode.content == bytes(SECTOR_BYTES) + b"lost, but for this"
    inode.settle(inode.changes_made)
    assert inode.durable == bytes(SECTOR_BYTES) + b"lost, but for this"


def test_what_is_cut_while_a_sync_fails_stays_cut() -> None:
    inode = Inode()
    inode.write(0, b"lost and cut")
    began_at = inode.changes_made
    inode.truncate(4)
    inode.write(4, b" no more")
    inode.settle(began_at, lost=True)
    inode.forget_cached()
    assert inode.content == b"lost no more"


def test_bytes_lost_by_a_failed_sync_read_as_zeros_until_cut() -> None:
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
    file.forget_cached()
    assert (file.size(), file.read_at(0, 10)) == (8, b"kept\0\0\0\0")
    assert disk.durable_bytes("/d/a") == b"kept"
    file.truncate(4)
    file.append(b"new")
    assert file.read_at(0, 10) == b"keptnew"


def test_an_injected_failure_hits_that_call_and_file_that_often() -> None:
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
            disk.crash("all")

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


def test_a_dead_process_writes_nothing_more() -> None:
    disk, _ = disk_with_file()
    disk.is_attached = False
    for write in (
        lambda: disk.replace_now("/d/q", b"1", durable=False),
        lambda: disk.rename("/d/a", "/d/b"),
        lambda: disk.remove("/d/a"),
        lambda: disk.open("/d/new", create=True),
        lambda: disk.make_directory("/e"),
        lambda: disk.lock("/d/.lock"),
    ):
        with pytest.raises(OSError, match="is dead"):
            write()
    assert disk.peek_names("/d") == ["a"]
    assert not disk.exists("/e")
    disk.is_attached = True
    disk.remove("/d/a")


def test_damage_stays_after_a_crash() -> None:
    disk, file = disk_with_file()
    file.append(b"\x00\x00")
    file.sync_now()
    disk.damage("/d/a", 1, 0x80)
    disk.crash()
    assert disk.read_bytes("/d/a") == b"\x00\x80"


def test_one_seed_loses_the_same_and_what_to_lose_is_checked() -> None:
    def content(seed: int) -> bytes:
        disk, file = disk_with_file(seed)
        for fill in b"123":
            file.append(bytes([fill]) * 700)
        disk.crash("reordered")
        return disk.read_bytes("/d/a")

    assert content(5) == content(5)
    assert len({content(seed) for seed in range(10)}) > 3
    with pytest.raises(ValueError, match="lose: 'most', expected"):
        SimulatedDisk().crash("most")  # type: ignore[arg-type]


class TestFullDisk:
    def test_what_fits_is_written_and_does_not_count(self) -> None:
        disk, file = disk_with_file()
        disk.replace_now("/d/q", b"12")
        disk.capacity = 5
        file.append(b"34")
        with pytest.raises(OSError, match="no space") as caught:
            file.append(b"567")
        assert caught.value.errno == errno.ENOSPC
        assert (file.size(), file.read_at(0, 10)) == (2, b"34")
        assert disk.peek("/d/a") == b"345"
        disk.capacity = None
        file.append(b"6")
        assert file.read_at(0, 10) == b"346"

    def test_a_replacement_that_does_not_fit_leaves_the_old_content(self) -> None:
        disk, _ = disk_with_file()
        disk.replace_now("/d/q", b"old")
        disk.capacity = 5
        with pytest.raises(OSError, match="no space"):
            disk.replace_now("/d/q", b"new")
        assert disk.read_bytes("/d/q") == b"old"
        assert disk.list_directory("/d") == ["a", "q"]
        disk.remove("/d/q")
        disk.replace_now("/d/q", b"new")

    def test_existing_bytes_may_be_overwritten_and_a_cut_frees_room(self) -> None:
        disk, file = disk_with_file()
        file.append(b"123")
        disk.capacity = 3
        file.overwrite(0, b"abc")
        file.truncate(1)
        file.append(b"BC")
        assert disk.room() == 0
        disk.capacity = 1
        assert disk.room() == 0


def test_a_failed_write_may_leave_a_part_behind_the_end() -> None:
    seen = set()
    for seed in range(50):
        disk, file = disk_with_file(seed)
        file.append(b"1")
        disk.fail("append")
        with pytest.raises(OSError, match="injected"):
            file.append(b"23")
        assert (file.size(), file.read_at(0, 10)) == (1, b"1")
        seen.add(disk.peek("/d/a"))
    assert seen == {b"1", b"12", b"123"}


class TestLooking:
    def test_what_is_seen_and_what_is_durable(self) -> None:
        disk, file = disk_with_file()
        file.append(b"synced")
        file.sync_now()
        file.append(b"not")
        disk.open("/d/new", create=True)
        disk.rename("/d/a", "/d/b")
        assert (disk.peek("/d/b"), disk.peek("/d/a"), disk.peek("/none/a")) == (b"syncednot", None, None)
        assert (disk.peek_names("/d"), disk.peek_names("/none")) == (["b", "new"], [])
        assert (disk.durable_bytes("/d/a"), disk.durable_bytes("/d/b")) == (b"synced", None)
        assert (disk.durable_slice("/d/a", 2, 3), disk.durable_slice("/d/a", 4, 10)) == (b"nce", b"ed")
        assert (disk.durable_size("/d/a"), disk.durable_size("/d/b")) == (6, None)
        disk.crash("all")
        assert {name: disk.peek(f"/d/{name}") for name in disk.peek_names("/d")} == {"a": b"synced"}

    def test_names_are_listed_as_they_are_after_each_change(self) -> None:
        disk, _ = disk_with_file()
        disk.sync_directory("/d")
        listed = [disk.peek_names("/d")]
        disk.open("/d/c", create=True)
        listed.append(disk.peek_names("/d"))
        disk.rename("/d/c", "/d/b")
        listed.append(disk.peek_names("/d"))
        disk.remove("/d/a")
        listed.append(disk.peek_names("/d"))
        listed[-1].clear()  # The list is the caller's own.
        listed.append(disk.peek_names("/d"))
        disk.crash("all")
        listed.append(disk.peek_names("/d"))
        assert listed == [["a"], ["a", "c"], ["a", "b"], [], ["b"], ["a"]]

    def test_looking_is_no_call(self) -> None:
        disk, _ = disk_with_file()
        calls = disk.calls
        disk.hook = lambda _operation, _path: pytest.fail("called")
        disk.peek("/d/a")
        disk.peek_names("/d")
        disk.durable_bytes("/d/a")
        disk.durable_slice("/d/a", 0, 1)
        disk.durable_size("/d/a")
        disk.copy()
        assert disk.calls == calls


class TestCopy:
    def test_it_has_the_same_content_and_the_same_of_it_durable(self) -> None:
        disk, file = disk_with_file()
        file.append(b"synced")
        file.sync_now()
        file.append(b"not")
        disk.open("/d/new", create=True)
        for lose in ("kill", "all"):
            copy = disk.copy()
            assert (copy.peek("/d/a"), copy.peek_names("/d")) == (b"syncednot", ["a", "new"])
            if lose == "all":
                copy.crash("all")
                assert (copy.peek("/d/a"), copy.peek_names("/d")) == (b"synced", ["a"])

    def test_neither_sees_what_is_done_to_the_other(self) -> None:
        disk, file = disk_with_file()
        disk.lock("/d/.lock")
        file.append(b"1")
        disk.fail("append")
        disk.capacity = 1
        copy = disk.copy()
        copy.lock("/d/.lock")
        copied = copy.open("/d/a")
        copied.append(b"2")
        copied.sync_now()
        copy.damage("/d/a", 0, 0x01)
        copy.rename("/d/a", "/d/b")
        copy.sync_directory("/d")
        assert (copy.peek("/d/b"), copy.durable_bytes("/d/b")) == (b"02", b"02")
        assert (disk.peek("/d/a"), disk.durable_bytes("/d/a"), disk.peek("/d/b")) == (b"1", b"", None)
        file.sync_now()
        assert disk.durable_bytes("/d/a") == b"1"
        disk.crash("all")
        assert copied.read_at(0, 10) == b"02", "its files live on"

    def test_both_lose_the_same_from_then_on(self) -> None:
        disk, file = disk_with_file(3)
        file.append(b"x" * 5000)
        copy = disk.copy()
        disk.crash("reordered")
        copy.crash("reordered")
        assert copy.peek("/d/a") == disk.peek("/d/a")
