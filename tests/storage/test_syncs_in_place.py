"""When the event loop waits for an fsync itself."""

from __future__ import annotations

import threading
from pathlib import Path
from uuid import UUID

import pytest
import trio

from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.disk import real_disk
from kraft_trio.storage.disk.disk import DiskFile
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.disk.syncs_in_place import FOLLOWER_LIMIT_NS as LIMIT_NS
from kraft_trio.storage.disk.syncs_in_place import LEADER_LIMIT_NS, PAUSE, SyncsInPlace
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig


class Device:
    """A clock, and what a test needs of a file whose syncs each take `takes_ns` of its time."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.takes_ns = 0
        self.syncs = 0

    def clock_ns(self) -> int:
        return self.now_ns

    def sync_now(self) -> None:
        self.now_ns += self.takes_ns
        self.syncs += 1


def blocked(device: Device, in_place: SyncsInPlace, wanted: int, limit_ns: int = LIMIT_NS) -> list[bool]:
    """Which of so many syncs the event loop waits for."""
    asked = []
    file: DiskFile = device  # type: ignore[assignment]
    for _ in range(wanted):
        asked.append(in_place.is_faster_than(limit_ns))
        if asked[-1]:
            in_place.sync(file)
    return asked


def test_the_loop_waits_for_a_fast_device() -> None:
    device = Device()
    device.takes_ns = LIMIT_NS // 2
    assert all(blocked(device, SyncsInPlace(device.clock_ns), 1000))
    assert device.syncs == 1000


def test_a_single_slow_sync_in_many_is_no_reason_to_use_the_thread() -> None:
    device = Device()
    in_place = SyncsInPlace(device.clock_ns)
    for _ in range(20):
        device.takes_ns = LIMIT_NS // 10
        assert all(blocked(device, in_place, 50))
        device.takes_ns = 3 * LIMIT_NS
        assert all(blocked(device, in_place, 1))


def test_a_slow_device_gets_the_thread_and_is_tried_again_now_and_then() -> None:
    device = Device()
    device.takes_ns = 10 * LIMIT_NS
    in_place = SyncsInPlace(device.clock_ns)
    assert blocked(device, in_place, 2 * PAUSE + 3) == [True, *[False] * PAUSE, True, *[False] * PAUSE, True]
    # A device that has become fast is used again.
    device.takes_ns = LIMIT_NS // 10
    assert blocked(device, in_place, 2 * PAUSE)[-PAUSE:] == [True] * PAUSE


def test_a_device_that_hung_is_not_tried_twice_in_a_row() -> None:
    device = Device()
    in_place = SyncsInPlace(device.clock_ns)
    assert all(blocked(device, in_place, 100))
    device.takes_ns = 1000 * LIMIT_NS
    assert blocked(device, in_place, PAUSE + 1) == [True, *[False] * PAUSE]


def test_each_role_has_its_limit() -> None:
    device = Device()
    device.takes_ns = (LIMIT_NS + LEADER_LIMIT_NS) // 2
    in_place = SyncsInPlace(device.clock_ns)
    assert all(blocked(device, in_place, 1000))
    # The same device as a leader's.
    assert sum(blocked(device, in_place, 1000, LEADER_LIMIT_NS)) < 70
    assert all(blocked(device, in_place, 1000))
    device.takes_ns = LEADER_LIMIT_NS // 2
    assert blocked(device, in_place, 1000, LEADER_LIMIT_NS)[-900:] == [True] * 900


def open_log(path: Path, in_place: SyncsInPlace | None) -> Log:
    disk = RealDisk()
    return Log.open(
        disk,
        f"{path}/log",
        topic_id=UUID(int=1),
        static_voters=VoterSet(),
        config=LogConfig(),
        now_ms=lambda: 0,
        syncs_in_place=in_place,
    )


@pytest.mark.parametrize(("has_policy", "may_block"), [(True, True), (True, False), (False, True)])
async def test_only_a_sync_that_may_block_does_without_the_thread(
    tmp_path: Path, has_policy: bool, may_block: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, SyncsInPlace(lambda: 0) if has_policy else None)
    syncing_threads: list[int] = []
    sync_data = real_disk.sync_data

    def noting(descriptor: int) -> None:
        syncing_threads.append(threading.get_ident())
        sync_data(descriptor)

    log.append_as_leader(encode_batch([NewRecord(value=b"x")], timestamp_ms=0), leader_epoch=1)
    with monkeypatch.context() as watched:
        watched.setattr(real_disk, "sync_data", noting)
        assert await log.sync(in_place_below_ns=LIMIT_NS if may_block else 0) == log.synced_end_offset == 1
    assert len(syncing_threads) == 1
    assert (syncing_threads[0] == threading.get_ident()) == (has_policy and may_block)
    await log.close()


async def test_a_failure_in_place_poisons_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, SyncsInPlace(lambda: 0))

    def fails(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    log.append_as_leader(encode_batch([NewRecord(value=b"x")], timestamp_ms=0), leader_epoch=1)
    monkeypatch.setattr(real_disk, "sync_data", fails)
    with pytest.raises(StorageFailure, match="Input/output"):
        await log.sync(in_place_below_ns=LIMIT_NS)
    assert log.poisoned is not None
    assert log.synced_end_offset == 0
    await log.close()


async def test_a_cancelled_caller_is_cancelled_after_the_sync(tmp_path: Path) -> None:
    log = open_log(tmp_path, SyncsInPlace(lambda: 0))
    log.append_as_leader(encode_batch([NewRecord(value=b"x")], timestamp_ms=0), leader_epoch=1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await log.sync(in_place_below_ns=LIMIT_NS)
    assert scope.cancelled_caught
    assert log.synced_end_offset == 1
    await log.close()
