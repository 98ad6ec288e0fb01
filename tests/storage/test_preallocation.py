"""The active segment's file ends with zeros, which later appends overwrite."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from uuid import UUID

import pytest

from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.segments.preallocation import LARGEST_APPEND_BYTES, has_only_zeros, zeros_behind
from tests.storage.support import DIRECTORY, FIRST_SEGMENT, batch, open_log, values_in


@pytest.mark.parametrize(
    ("end", "append_bytes", "preallocate_bytes", "segment_bytes", "expected"),
    [
        (100, 100, 4096, 1 << 30, 3996),
        (4096, 100, 4096, 1 << 30, 0),
        (4097, 100, 4096, 1 << 30, 4095),
        (100, 100, 0, 1 << 30, 0),
        (100, 100, 4096, 1000, 900),
        (1100, 100, 4096, 1000, 0),
        (LARGEST_APPEND_BYTES, LARGEST_APPEND_BYTES, 1 << 20, 1 << 30, (1 << 20) - LARGEST_APPEND_BYTES),
        (LARGEST_APPEND_BYTES + 1, LARGEST_APPEND_BYTES + 1, 1 << 20, 1 << 30, 0),
    ],
)
def test_the_file_ends_at_a_multiple_within_the_segment(
    end: int, append_bytes: int, preallocate_bytes: int, segment_bytes: int, expected: int
) -> None:
    zeros = zeros_behind(end, append_bytes, preallocate_bytes=preallocate_bytes, segment_bytes=segment_bytes)
    assert zeros == expected


def test_zeros_are_told_from_everything_else() -> None:
    assert has_only_zeros(memoryview(b"ab\0\0"), 2)
    assert has_only_zeros(memoryview(b"ab"), 2)
    assert not has_only_zeros(memoryview(b"ab\0\0"), 1)
    assert not has_only_zeros(memoryview(bytes(3_000_000) + b"c"), 0)


def opened(disk: Disk, directory: str) -> Log:
    return Log.open(
        disk,
        directory,
        topic_id=UUID(int=1),
        static_voters=VoterSet(),
        config=LogConfig(segment_bytes=10_000, preallocate_bytes=4096),
        now_ms=lambda: 0,
    )


async def test_the_size_of_the_file_changes_at_each_step_only(tmp_path: Path) -> None:
    disk = RealDisk()
    log = opened(disk, f"{tmp_path}/log")
    path = tmp_path / "log" / "00000000000000000000.log"
    sizes = []
    for number in range(12):
        log.append_as_leader(batch(b"%d" % number * 500), 1)
        await log.sync()
        sizes.append(path.stat().st_size)
        assert log.size_in_bytes < sizes[-1]
        assert has_only_zeros(memoryview(path.read_bytes()), log.size_in_bytes)
    assert sorted(set(sizes)) == [4096, 8192]
    values = values_in(log)
    # A truncation cuts them, too; the next append grows the file again.
    log.truncate_to(3)
    size = log.size_in_bytes
    assert path.stat().st_size == size
    log.append_as_leader(batch(b"later"), 2)
    assert (log.size_in_bytes - size, path.stat().st_size) == (len(batch(b"later")), 4096)
    await log.close()
    assert path.stat().st_size == log.size_in_bytes, "a clean stop leaves whole batches only"
    log = opened(disk, f"{tmp_path}/log")
    assert values_in(log) == [*values[:3], b"later"]
    await log.close()
    disk.close()


async def test_a_sealed_segment_has_whole_batches_only(tmp_path: Path) -> None:
    disk = RealDisk()
    log = opened(disk, f"{tmp_path}/log")
    while log.size_in_bytes < 15_000:
        log.append_as_leader(batch(bytes(900)), 1)
    first, second = sorted((tmp_path / "log").glob("*.log"))
    with first.open("rb") as file:
        assert file.read() == log.read(0, first.stat().st_size, int(second.stem))
    assert second.stat().st_size > log.size_in_bytes - first.stat().st_size
    await log.close()
    disk.close()


def test_a_killed_process_leaves_zeros_that_the_next_one_cuts() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, preallocate_bytes=4096)
    log.append_as_leader(batch(b"one"), 1)
    size = log.size_in_bytes
    disk.kill()
    assert len(disk.peek(FIRST_SEGMENT) or b"") == 4096
    log = open_log(disk, preallocate_bytes=4096)
    assert (values_in(log), log.size_in_bytes) == ([b"one"], size)
    assert len(disk.peek(FIRST_SEGMENT) or b"") == size


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
async def test_without_room_for_zeros_what_is_appended_still_fits(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk()
    log = opened(disk, f"{tmp_path}/log")

    def full(*_: object) -> int:
        raise OSError(code, "no room")

    monkeypatch.setattr(os, "pwritev", full)
    log.append_as_leader(batch(b"one"), 1)
    assert await log.sync() == 1
    path = tmp_path / "log" / "00000000000000000000.log"
    assert path.stat().st_size == log.size_in_bytes
    await log.close()
    disk.close()


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that becomes full: first within the zeros, then within the data."""
    disk = RealDisk()
    write = os.pwritev
    for room in (0, 1, 50, 99, 100, 101, 150):
        monkeypatch.setattr(
            os, "pwritev", lambda fd, parts, at, room=room: write(fd, [b"".join(map(bytes, parts))[:room]], at)
        )
        file = disk.open(f"{tmp_path}/{room}", create=True)
        file.append(b"x" * 100, 60)
        file.append(b"y" * 10, 60)
        assert (file.size(), file.read_at(0, 1000)) == (110, b"x" * 100 + b"y" * 10)
        assert (tmp_path / f"{room}").read_bytes().rstrip(b"\0") == b"x" * 100 + b"y" * 10
        file.close()
    disk.close()


def test_any_other_error_of_the_first_write_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk()
    file = disk.open(f"{tmp_path}/a", create=True)

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "pwritev", broken)
    with pytest.raises(OSError, match=r"broken: '.*/a'"):
        file.append(b"x", 10)
    assert file.size() == 0
    file.close()
    disk.close()


def test_a_simulated_disk_with_little_room_gets_no_zeros() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    file = disk.open(f"{DIRECTORY}/a", create=True)
    disk.capacity = 150
    file.append(b"x" * 100, 60)
    assert disk.peek(f"{DIRECTORY}/a") == b"x" * 100
    file.append(b"y" * 10, 40)
    assert disk.peek(f"{DIRECTORY}/a") == b"x" * 100 + b"y" * 10 + bytes(40)
    file.append(b"z" * 40)
    with pytest.raises(OSError, match="no space left"):
        file.append(b"z")
    assert file.size() == 150


async def test_a_cut_that_a_failed_fsync_lost_is_made_again() -> None:
    """Otherwise the next process seals a segment that ends in zeros on the device."""
    disk = SimulatedDisk()
    log = open_log(disk, segment_bytes=300, preallocate_bytes=4096)
    log.append_as_leader(batch(b"x" * 100), 1)
    await log.sync()
    disk.fail("sync")
    with pytest.raises(StorageFailure):
        log.append_as_leader(batch(b"y" * 100), 1)  # Seals the first segment.
    assert log.poisoned is not None
    disk.kill()
    log = open_log(disk, segment_bytes=300, preallocate_bytes=4096)
    log.append_as_leader(batch(b"y" * 100), 1)
    await log.sync()
    disk.crash("all")
    assert values_in(open_log(disk, segment_bytes=300)) == [b"x" * 100, b"y" * 100]
