"""When the event loop waits for an fsync itself."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
import trio

from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.disk import file_syncs
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.disk.syncs_in_place import LIMIT_NS, SyncsInPlace
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig

pytestmark = pytest.mark.usefixtures("no_kernel_syncs")


def in_place(*times_ns: int) -> list[bool]:
    """Which of so many syncs the event loop waits for, each of which takes the device so long."""
    policy = SyncsInPlace()
    asked = []
    for taken_ns in times_ns:
        asked.append(policy.is_fast())
        policy.note(taken_ns)
    return asked


FAST_NS = LIMIT_NS // 5


def test_the_loop_waits_for_a_fast_device_once_it_is_known_to_be_fast() -> None:
    asked = in_place(*[FAST_NS] * 1000)
    assert not any(asked[:15])
    assert all(asked[30:])


def test_a_single_slow_sync_in_many_is_no_reason_to_use_the_thread() -> None:
    asked = in_place(*[FAST_NS] * 50, *([3 * LIMIT_NS] + [FAST_NS] * 50) * 20)
    assert all(asked[50:])


@pytest.mark.parametrize("times", [1.05, 2, 10, 6000])
def test_a_slow_device_is_left_to_the_thread(times: float) -> None:
    slow_ns = round(LIMIT_NS * times)
    assert not any(in_place(*[slow_ns] * 1000))
    asked = in_place(*[FAST_NS] * 50, *[slow_ns] * 1000)
    assert asked[50]
    assert not any(asked[100:])


def test_a_device_that_hung_is_left_to_the_thread_until_several_syncs_were_fast() -> None:
    asked = in_place(*[FAST_NS] * 50, 6000 * LIMIT_NS, *[FAST_NS] * 100)
    assert asked[50]
    assert not any(asked[51:80])
    assert all(asked[-20:])


def fast() -> SyncsInPlace:
    policy = SyncsInPlace()
    for _ in range(100):
        policy.note(0)
    return policy


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
    log = open_log(tmp_path, fast() if has_policy else None)
    syncing_threads: list[int] = []
    sync_data = file_syncs.sync_data

    def noting(descriptor: int) -> None:
        syncing_threads.append(threading.get_ident())
        sync_data(descriptor)

    log.append_as_leader(encode_batch([NewRecord(value=b"x")], timestamp_ms=0), leader_epoch=1)
    with monkeypatch.context() as watched:
        watched.setattr(file_syncs, "sync_data", noting)
        assert await log.sync(may_block=may_block) == log.synced_end_offset == 1
    assert len(syncing_threads) == 1
    assert (syncing_threads[0] == threading.get_ident()) == (has_policy and may_block)
    await log.close()


async def test_a_failure_in_place_poisons_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, fast())

    def fails(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    log.append_as_leader(encode_batch([NewRecord(value=b"x")], timestamp_ms=0), leader_epoch=1)
    monkeypatch.setattr(file_syncs, "sync_data", fails)
    with pytest.raises(StorageFailure, match="Input/output"):
        await log.sync(may_block=True)
    assert log.poisoned is not None
    assert log.synced_end_offset == 0
    await log.close()


async def test_a_cancelled_caller_is_cancelled_after_the_sync(tmp_path: Path) -> None:
    log = open_log(tmp_path, fast())
    log.append_as_leader(encode_batch([NewRecord(value=b"x")], timestamp_ms=0), leader_epoch=1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await log.sync(may_block=True)
    assert scope.cancelled_caught
    assert log.synced_end_offset == 1
    await log.close()


def test_ctrl_c_during_a_failing_sync_does_not_hide_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports it once, so that the sync of a later close would succeed."""
    logs: list[Log] = []

    def interrupted(_descriptor: int) -> None:
        signal.raise_signal(signal.SIGINT)
        raise OSError(5, "Input/output error")

    async def sync_once() -> None:
        log = open_log(tmp_path, fast())
        logs.append(log)
        log.append_as_leader(encode_batch([NewRecord(value=b"x")], timestamp_ms=0), leader_epoch=1)
        with monkeypatch.context() as failing, suppress(StorageFailure):
            failing.setattr(file_syncs, "sync_data", interrupted)
            await log.sync(may_block=True)

    async def run_task() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync_once)

    with pytest.raises(KeyboardInterrupt):
        trio.run(run_task)
    with suppress(StorageFailure):
        trio.run(logs[0].close)
    assert (tmp_path / "log" / "recovery-point").exists(), "not closed as a sound log"
    assert not list((tmp_path / "log").glob("*.snapshot"))
