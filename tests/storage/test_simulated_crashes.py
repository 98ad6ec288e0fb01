"""The simulated disk loses power: at which call, and what of the unsynced is lost in which order."""

from __future__ import annotations

import itertools

import pytest

from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.disk.disk import SECTOR_BYTES
from tests.storage.support import disk_with_file


class TestReordered:
    """A crash that keeps sectors and names in an order of its own."""

    def test_each_sector_is_as_it_was_at_some_moment(self) -> None:
        seen = set()
        for seed in range(400):
            disk, file = disk_with_file(seed)
            file.append(b"0" * 3 * SECTOR_BYTES)
            file.sync_now()
            for fill in (b"1", b"2"):
                file.overwrite(0, fill * 3 * SECTOR_BYTES)
            disk.crash("reordered")
            data = disk.read_bytes("/d/a")
            sectors = [data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)]
            assert all(sector in (b"0" * SECTOR_BYTES, b"1" * SECTOR_BYTES, b"2" * SECTOR_BYTES) for sector in sectors)
            seen.add(bytes(sector[0] for sector in sectors))
        assert seen == {bytes(digits) for digits in itertools.product(b"012", repeat=3)}

    def test_later_writes_may_survive_earlier_ones_left_as_zeros(self) -> None:
        seen = set()
        for seed in range(200):
            disk, file = disk_with_file(seed)
            file.append(b"0" * 10)
            file.sync_now()
            file.append(b"1" * (2 * SECTOR_BYTES - 10))
            file.append(b"2" * SECTOR_BYTES)
            disk.crash("reordered")
            data = disk.read_bytes("/d/a")
            assert data[:10] == b"0" * 10, "what was synced stays"
            assert len(data) in (10, 2 * SECTOR_BYTES, 3 * SECTOR_BYTES)
            seen.add(
                (data[10:11], data[SECTOR_BYTES : SECTOR_BYTES + 1], data[2 * SECTOR_BYTES : 2 * SECTOR_BYTES + 1])
            )
        assert {(b"\0", b"\0", b"2"), (b"1", b"\0", b"2"), (b"1", b"1", b"\0"), (b"1", b"1", b"2")} <= seen
        assert {(b"", b"", b""), (b"\0", b"1", b"")} <= seen

    def test_a_truncation_may_be_undone_with_or_without_its_bytes(self) -> None:
        seen = set()
        for seed in range(200):
            disk, file = disk_with_file(seed)
            file.append(b"1" * 2 * SECTOR_BYTES)
            file.sync_now()
            file.truncate(SECTOR_BYTES // 2)
            disk.crash("reordered")
            data = disk.read_bytes("/d/a")
            assert data[: SECTOR_BYTES // 2] == b"1" * (SECTOR_BYTES // 2)
            seen.add((len(data), data[-1:], data.count(b"1") // (SECTOR_BYTES // 2)))
        assert seen == {
            (SECTOR_BYTES // 2, b"1", 1),
            (2 * SECTOR_BYTES, b"1", 4),
            (2 * SECTOR_BYTES, b"1", 3),
            (2 * SECTOR_BYTES, b"\0", 2),
            (2 * SECTOR_BYTES, b"\0", 1),
        }

    def test_each_name_change_is_kept_or_lost_and_a_rename_whole(self) -> None:
        seen = set()
        for seed in range(200):
            disk, _ = disk_with_file(seed)
            disk.rename("/d/a", "/d/b")
            disk.open("/d/c", create=True)
            disk.rename("/d/c", "/d/d")
            disk.crash("reordered")
            seen.add(tuple(disk.list_directory("/d")))
        assert seen == {(first, *second) for first, second in itertools.product("ab", [(), ("c",), ("d",)])}

    def test_a_removed_file_comes_back_or_not(self) -> None:
        seen = set()
        for seed in range(30):
            disk, _ = disk_with_file(seed)
            disk.remove("/d/a")
            disk.crash("reordered")
            seen.add(tuple(disk.list_directory("/d")))
        assert seen == {(), ("a",)}

    def test_nothing_that_was_synced_is_lost(self) -> None:
        for seed in range(30):
            disk, file = disk_with_file(seed)
            file.append(b"1" * 1000)
            file.sync_now()
            disk.replace_now("/d/q", b"q")
            disk.crash("reordered")
            assert (disk.read_bytes("/d/a"), disk.read_bytes("/d/q")) == (b"1" * 1000, b"q")


class TestCrashPoints:
    def test_a_crash_before_a_call_undoes_it_and_after_it_keeps_it(self) -> None:
        for after in (False, True):
            disk, file = disk_with_file()
            file.append(b"1")
            disk.crash_at(lambda operation, path: (operation, path) == ("sync", "/d/a"), after=after, lose="all")
            with pytest.raises(OSError, match=f"crashed {'after' if after else 'at'} sync"):
                file.sync_now()
            assert disk.read_bytes("/d/a") == (b"1" if after else b"")

    def test_the_call_is_named_by_its_number(self) -> None:
        disk, file = disk_with_file()
        disk.crash_at(disk.calls + 2, lose="all")
        file.append(b"1")
        with pytest.raises(OSError, match="crashed at sync"):
            file.sync_now()
        assert disk.crashes == 1
        with pytest.raises(ValueError, match=f"point: call {disk.calls}, expected one to come"):
            disk.crash_at(disk.calls)

    def test_something_else_may_be_done_instead(self) -> None:
        disk, file = disk_with_file()
        disk.crash_at(disk.calls + 1, crash=disk.kill, after=True)
        with pytest.raises(OSError, match="crashed after append"):
            file.append(b"1")
        assert disk.read_bytes("/d/a") == b"1", "a killed process loses nothing"

    @pytest.mark.parametrize(
        "operation",
        ["open", "append", "overwrite", "truncate", "sync", "rename", "remove", "sync_directory", "make_directory"],
    )
    def test_every_call_that_changes_something_has_both(self, operation: str) -> None:
        def use(disk: SimulatedDisk) -> None:
            disk.make_directory("/d")
            file = disk.open("/d/a", create=True)
            file.append(b"12")
            file.overwrite(0, b"3")
            file.truncate(1)
            file.sync_now()
            disk.rename("/d/a", "/d/b")
            disk.remove("/d/b")
            disk.sync_directory("/d")

        for after in (False, True):
            disk = SimulatedDisk()
            disk.crash_at(lambda name, _path: name == operation, after=after)
            with pytest.raises(OSError, match=f"crashed {'after' if after else 'at'} {operation}"):
                use(disk)
            use(SimulatedDisk())

    def test_a_replacement_has_one_at_each_of_its_steps(self) -> None:
        disk, _ = disk_with_file()
        disk.replace_now("/d/q", b"old")
        calls: list[str] = []
        disk.hook = lambda operation, _path: calls.append(operation)
        disk.replace_now("/d/q", b"old")
        disk.hook = None
        assert calls == ["open", "append", "sync", "rename", "sync_directory"]
        for step in range(1, len(calls) + 1):
            for after in (False, True):
                disk.crash_at(disk.calls + step, after=after, lose="all")
                with pytest.raises(OSError, match="crashed"):
                    disk.replace_now("/d/q", b"new")
                assert disk.read_bytes("/d/q") == (b"new" if (step, after) == (5, True) else b"old")
        assert disk.list_directory("/d") == ["a", "q"]

    def test_cleared_faults_are_no_more(self) -> None:
        disk, file = disk_with_file()
        disk.hook = lambda _operation, _path: pytest.fail("called")
        disk.crash_at(disk.calls + 1)
        disk.fail("append")
        disk.capacity = 0
        disk.clear_faults()
        file.append(b"1")
        assert disk.crashes == 0
