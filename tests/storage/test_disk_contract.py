"""What every disk must do: the real one and the simulated one pass the same tests."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from kraft_trio.errors import AlreadyLockedError
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.real_disk import RealDisk


class Place:
    def __init__(self, disk: RealDisk | SimulatedDisk, root: str) -> None:
        self.disk: Disk = disk
        self.root = root

    def mode(self, path: str) -> int:
        if isinstance(self.disk, SimulatedDisk):
            return self.disk.mode(path)
        return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    disk = RealDisk() if request.param == "real" else SimulatedDisk()
    root = str(tmp_path) if request.param == "real" else "/data"
    disk.make_directory(root)
    yield Place(disk, root)
    disk.close()


def test_what_is_appended_is_read(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"one")
    file.append(bytearray(b"two"))
    file.append(memoryview(b"three")[:2])
    assert file.size() == 8
    assert file.read_at(0, 100) == b"onetwoth"
    assert file.read_at(2, 3) == b"etw"
    assert file.read_at(8, 10) == b""
    assert file.read_at(100, 10) == b""
    buffer = bytearray(b"." * 6)
    for position, count, expected in ((2, 6, b"etwoth"), (5, 3, b"othoth"), (8, 0, b"othoth"), (100, 0, b"othoth")):
        assert file.read_into(position, memoryview(buffer)) == count
        assert buffer == expected
    with file.view() as view:
        assert bytes(view) == b"onetwoth"
    file.close()


def test_a_rename_keeps_the_time_of_the_last_write(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"one")
    written_ms = place.disk.modified_ms(f"{place.root}/a")
    file.close()
    place.disk.rename(f"{place.root}/a", f"{place.root}/b")
    assert place.disk.modified_ms(f"{place.root}/b") == written_ms
    with pytest.raises(FileNotFoundError):
        place.disk.modified_ms(f"{place.root}/a")


def test_the_view_of_an_empty_file_is_empty(place: Place) -> None:
    with place.disk.open(f"{place.root}/a", create=True).view() as view:
        assert len(view) == 0


def test_a_reopened_file_keeps_its_content_and_grows_at_its_end(place: Place) -> None:
    first = place.disk.open(f"{place.root}/a", create=True)
    first.append(b"one")
    first.close()
    second = place.disk.open(f"{place.root}/a", create=True)
    second.append(b"two")
    assert second.read_at(0, 10) == b"onetwo"
    second.close()


def test_truncate_cuts_and_the_next_append_goes_there(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"123456")
    file.truncate(2)
    file.append(b"xy")
    assert file.read_at(0, 10) == b"12xy"
    with pytest.raises(ValueError, match="cannot truncate to 5 bytes, the file has 4"):
        file.truncate(5)
    file.close()


def test_a_missing_file_is_made_only_when_asked(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.disk.open(f"{place.root}/a")
    assert not place.disk.exists(f"{place.root}/a")
    place.disk.open(f"{place.root}/a", create=True).close()
    assert place.disk.exists(f"{place.root}/a")
    with pytest.raises(FileNotFoundError):
        place.disk.open(f"{place.root}/no/a", create=True)


def test_directories_are_made_with_parents_and_listed_in_order(place: Place) -> None:
    place.disk.make_directory(f"{place.root}/x/y")
    place.disk.make_directory(f"{place.root}/x/y")
    for name in ("b", "a"):
        place.disk.open(f"{place.root}/x/{name}", create=True).close()
    assert place.disk.list_directory(f"{place.root}/x") == ["a", "b", "y"]
    assert place.disk.exists(f"{place.root}/x/y")
    with pytest.raises(FileNotFoundError):
        place.disk.list_directory(f"{place.root}/z")
    with pytest.raises(FileExistsError):
        place.disk.make_directory(f"{place.root}/x/a")


def test_rename_replaces_and_remove_removes(place: Place) -> None:
    place.disk.replace_now(f"{place.root}/a", b"old")
    place.disk.replace_now(f"{place.root}/b", b"new")
    place.disk.rename(f"{place.root}/b", f"{place.root}/a")
    assert place.disk.list_directory(place.root) == ["a"]
    assert place.disk.read_bytes(f"{place.root}/a") == b"new"
    place.disk.remove(f"{place.root}/a")
    assert place.disk.list_directory(place.root) == []
    with pytest.raises(FileNotFoundError):
        place.disk.remove(f"{place.root}/a")
    with pytest.raises(FileNotFoundError):
        place.disk.read_bytes(f"{place.root}/a")


@pytest.mark.parametrize("durable", [True, False])
def test_replace_now_leaves_the_new_content_and_nothing_else(place: Place, durable: bool) -> None:
    place.disk.replace_now(f"{place.root}/a", b"1", mode=0o400, durable=durable)
    assert place.mode(f"{place.root}/a") == 0o400
    place.disk.replace_now(f"{place.root}/a", b"2", durable=durable)
    assert place.disk.read_bytes(f"{place.root}/a") == b"2"
    assert place.disk.list_directory(place.root) == ["a"]


async def test_replace_leaves_the_last_of_two_contents(place: Place) -> None:
    await place.disk.replace(f"{place.root}/a", b"1")
    await place.disk.replace(f"{place.root}/a", b"2")
    assert place.disk.read_bytes(f"{place.root}/a") == b"2"


async def test_replace_aside_leaves_the_new_content_and_nothing_else(place: Place) -> None:
    await place.disk.replace_aside(f"{place.root}/a", b"one, a long one")
    await place.disk.replace_aside(f"{place.root}/a", b"two")
    assert place.disk.list_directory(place.root) == ["a"]
    assert place.disk.read_bytes(f"{place.root}/a") == b"two"


async def test_a_cancelled_replace_aside_has_been_made(place: Place) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await place.disk.replace_aside(f"{place.root}/a", b"new")
    assert place.disk.read_bytes(f"{place.root}/a") == b"new"


async def test_replace_aside_tells_of_a_disk_that_refuses(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        await place.disk.replace_aside(f"{place.root}/missing/a", b"new")


async def test_a_cancelled_replace_has_been_made(place: Place) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await place.disk.replace(f"{place.root}/a", b"1")
    assert place.disk.read_bytes(f"{place.root}/a") == b"1"


async def test_a_cancelled_sync_completes_before_the_cancellation(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"1")
    after_sync = after_checkpoint = False
    with trio.CancelScope() as scope:
        scope.cancel()
        await file.sync()
        after_sync = True
        await trio.lowlevel.checkpoint()
        after_checkpoint = True
    assert (after_sync, after_checkpoint) == (True, False)
    file.close()


async def test_a_file_may_be_closed_while_it_is_synced(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        file.close()
        file.close()
    assert place.disk.read_bytes(f"{place.root}/a") == b"1"


async def test_a_closed_file_is_not_used(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.close()
    with pytest.raises(ValueError, match="the file is closed"):
        file.append(b"1")
    with pytest.raises(ValueError, match="the file is closed"):
        file.read_at(0, 1)
    with pytest.raises(ValueError, match="the file is closed"):
        await file.sync()
    with pytest.raises(ValueError, match="the file is closed"):
        file.sync_now()


def test_forgetting_what_is_cached_loses_nothing_that_was_synced(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"1" * 10_000)
    file.sync_now()
    file.forget_cached()
    assert file.read_at(0, 20_000) == b"1" * 10_000
    file.close()


def test_a_lock_is_held_once(place: Place) -> None:
    lock = place.disk.lock(f"{place.root}/.lock")
    with pytest.raises(AlreadyLockedError, match=r"\.lock: the lock is held already"):
        place.disk.lock(f"{place.root}/.lock")
    lock.release()
    lock.release()
    place.disk.lock(f"{place.root}/.lock").release()


def test_an_overwrite_changes_those_bytes_and_no_others(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"123456")
    file.overwrite(1, b"ab")
    file.overwrite(5, bytearray(b"z"))
    file.overwrite(6, b"")
    assert file.read_at(0, 10) == b"1ab45z"
    file.append(b"7")
    file.sync_now()
    assert place.disk.read_bytes(f"{place.root}/a") == b"1ab45z7"
    for position, size in ((6, 2), (-1, 1), (8, 0)):
        with pytest.raises(ValueError, match=f"cannot overwrite {size} bytes at {position}, the file has 7"):
            file.overwrite(position, bytes(size))
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.overwrite(0, b"1")


async def test_a_file_that_nobody_may_write_is_read(place: Place) -> None:
    path = f"{place.root}/a"
    file = place.disk.open(path, create=True, mode=0o400)
    file.append(b"123456")
    await file.sync_aside()
    file.close()
    assert place.mode(path) == 0o400
    opened = place.disk.open_to_read(path)
    assert (opened.size(), opened.read_at(2, 3)) == (6, b"345")
    opened.close()
    with pytest.raises(FileNotFoundError):
        place.disk.open_to_read(f"{place.root}/b")


async def test_a_cancelled_sync_aside_ends_as_usual(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"1")
    after_sync = False
    with trio.CancelScope() as scope:
        scope.cancel()
        await file.sync_aside()
        after_sync = True
    assert after_sync
    file.close()
    with pytest.raises(ValueError, match="the file is closed"):
        await file.sync_aside()


async def test_a_file_may_be_closed_while_it_is_synced_aside(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(b"1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync_aside)
        await trio.testing.wait_all_tasks_blocked()
        file.close()
    assert place.disk.read_bytes(f"{place.root}/a") == b"1"


async def test_move_and_remove_nowait_work_for_a_cancelled_caller(place: Place) -> None:
    place.disk.replace_now(f"{place.root}/a", b"new")
    place.disk.replace_now(f"{place.root}/b", b"old")
    with trio.CancelScope() as scope:
        scope.cancel()
        await place.disk.move(f"{place.root}/a", f"{place.root}/b")
        assert place.disk.list_directory(place.root) == ["b"]
        assert place.disk.read_bytes(f"{place.root}/b") == b"new"
        await place.disk.remove_aside(f"{place.root}/b")
        assert place.disk.list_directory(place.root) == []
    with pytest.raises(FileNotFoundError):
        await place.disk.remove_aside(f"{place.root}/b")
    with pytest.raises(FileNotFoundError):
        await place.disk.move(f"{place.root}/b", f"{place.root}/a")


def test_allocated_space_is_zeros_and_allocates_only_once(place: Place) -> None:
    path = f"{place.root}/a"
    place.disk.allocate(path, 5000)
    assert place.disk.read_bytes(path) == bytes(5000)
    place.disk.allocate(path, 5000)
    place.disk.allocate(path, 10)
    assert place.disk.read_bytes(path) == bytes(5000)
    place.disk.allocate(path, 6000)
    assert place.disk.read_bytes(path) == bytes(6000)


def test_what_is_readable_ends_where_the_file_ends(place: Place) -> None:
    file = place.disk.open(f"{place.root}/a", create=True)
    file.append(bytes(300_000))
    assert 10 <= file.ensure_readable(0, 10) <= 300_000
    assert file.ensure_readable(100, 250_000) >= 250_100
    assert file.ensure_readable(290_000, 10_000) == 300_000
    assert file.ensure_readable(290_000, 20_000) == 300_000
    file.close()


def test_how_much_room_there_is_is_known_or_has_no_limit(place: Place) -> None:
    free_bytes = place.disk.free_bytes(place.root)
    assert free_bytes is None or free_bytes > 0
