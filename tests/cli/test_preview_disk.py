"""What is written on a PreviewDisk is there, and the disk below is as it was."""

from __future__ import annotations

import pytest

from kraft_trio.cli.directory.preview_disk import PreviewDisk
from kraft_trio.errors import AlreadyLockedError
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk


@pytest.fixture
def below() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/data")
    disk.replace_now("/data/a", b"123456")
    disk.replace_now("/data/b", b"b")
    return disk


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: disk.read_bytes(f"/data/{name}") for name in disk.list_directory("/data")}


async def test_an_open_file_is_changed_for_who_has_it_open(below: SimulatedDisk) -> None:
    file = PreviewDisk(below).open("/data/a")
    assert (file.size(), file.read_at(2, 2), file.read_at(5, 9), file.read_at(6, 1)) == (6, b"34", b"6", b"")
    file.truncate(4)
    assert file.read_at(0, 9) == b"1234"
    file.append(b"xyz")
    file.overwrite(3, b"-")
    file.truncate(6)
    with file.view() as view:
        assert bytes(view) == b"123-xy"
    file.truncate(2)
    file.forget_cached()
    file.sync_now()
    await file.sync()
    await file.sync_aside()
    assert (file.size(), file.read_at(0, 9)) == (2, b"12")
    with pytest.raises(ValueError, match="cannot truncate to 3 bytes, the file has 2"):
        file.truncate(3)
    with pytest.raises(ValueError, match="cannot overwrite 2 bytes at 1"):
        file.overwrite(1, b"..")
    file.close()
    assert contents(below) == {"a": b"123456", "b": b"b"}


async def test_names_are_made_replaced_and_removed(below: SimulatedDisk) -> None:
    disk = PreviewDisk(below)
    disk.make_directory("/data")
    disk.open("/data/new", create=True).close()
    disk.replace_now("/data/a", b"other")
    disk.remove("/data/b")
    await disk.replace("/data/c", b"c")
    disk.rename("/data/c", "/data/d")
    await disk.replace_aside("/data/e", b"e")
    assert disk.list_directory("/data/") == ["a", "d", "e", "new"]
    assert (disk.read_bytes("/data/a"), disk.read_bytes("/data/d"), disk.exists("/data/b")) == (b"other", b"c", False)
    assert disk.open("/data/a").read_at(0, 9) == b"other"
    await disk.move("/data/e", "/data/f")
    assert disk.open_to_read("/data/f").read_at(0, 9) == b"e"
    await disk.remove_aside("/data/f")
    for missing in (disk.open, disk.open_to_read, disk.read_bytes, disk.remove):
        with pytest.raises(FileNotFoundError):
            missing("/data/b")
    with pytest.raises(FileNotFoundError):
        disk.make_directory("/elsewhere")
    assert contents(below) == {"a": b"123456", "b": b"b"}


def test_a_lock_is_the_lock_of_the_disk_below(below: SimulatedDisk) -> None:
    lock = PreviewDisk(below).lock("/data/.lock")
    with pytest.raises(AlreadyLockedError):
        below.lock("/data/.lock")
    lock.release()
    below.lock("/data/.lock").release()
