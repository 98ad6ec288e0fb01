"""A process that can open no more files harms neither its log nor itself: no disk has failed."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing

from kraft_trio.cli.serving.open_files import HEADROOM, fitted
from kraft_trio.config import NodeConfig
from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.quorum_state import RETRY_S, QuorumStateFile
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.disk.spare_descriptors import SPARE
from kraft_trio.storage.segments.leader_epoch_checkpoint import decode_leader_epochs
from tests.storage.support import DIRECTORY, batch, open_log, values_in

SEGMENT_BYTES = 1024
VALUE = bytes(400)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("operation", ["open", "sync_directory"])
async def test_segment_grows_on_while_no_file_can_be_opened(operation: str, code: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    for number in range(20):
        if number == 5:
            disk.fail(operation, code=code, times=3)
        log.append_as_leader(bytearray(batch(b"%d" % number + VALUE)), 1)
    assert log.poisoned is None
    await log.sync()
    values = values_in(log)
    assert len(values) == 20
    # It rolls again once it can, and the whole log is found again.
    segments = [name for name in disk.list_directory(DIRECTORY) if name.endswith(".log")]
    assert len(segments) > 5
    await log.close()
    assert values_in(open_log(disk, segment_bytes=SEGMENT_BYTES)) == values


async def test_segment_grows_on_while_connections_need_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)

    def segments() -> int:
        return sum(name.endswith(".log") for name in disk.list_directory(DIRECTORY))

    with monkeypatch.context() as patch, structlog.testing.capture_logs() as logged:
        patch.setattr(SimulatedDisk, "may_keep_another_file", lambda _: False)
        for _ in range(10):
            log.append_as_leader(bytearray(batch(VALUE)), 1)
        assert segments() == 1
        assert len(logged) == 1, "it is said once"
    for _ in range(10):
        log.append_as_leader(bytearray(batch(VALUE)), 1)
    assert segments() > 4


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_epoch_begins_while_no_file_can_be_opened(code: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.append_as_leader(bytearray(batch(b"first")), 1)
    disk.fail("open", code=code)
    log.append_as_leader(bytearray(batch(b"second")), 2)
    assert log.poisoned is None
    await log.sync()
    await log.close()
    reopened = open_log(disk)
    assert list(reopened.epochs) == [(1, 0), (2, 1)]
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    assert decode_leader_epochs(path, disk.read_bytes(path)) == [(1, 0), (2, 1)]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_vote_waits_until_its_file_can_be_opened(code: int, autojump_clock: trio.testing.MockClock) -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    file = QuorumStateFile(disk, f"{DIRECTORY}/quorum-state")
    disk.fail("open", code=code, times=3)
    voted = ElectionState(5, voted_key=ReplicaKey(2))
    began_s = trio.current_time()
    await file.write(voted, 1, VoterSet())
    assert trio.current_time() - began_s == pytest.approx(3 * RETRY_S)
    assert file.read() == voted


async def test_failed_sync_still_poisons() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.append_as_leader(bytearray(batch(VALUE)), 1)
    disk.fail("sync", code=errno.EMFILE)
    with pytest.raises(Exception, match="cannot be trusted"):
        await log.sync()
    assert log.poisoned is not None


@pytest.mark.parametrize("operation", ["open", "sync_directory"])
async def test_a_log_that_cannot_be_opened_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    disk = RealDisk()
    log = open_log(disk, str(tmp_path), segment_bytes=SEGMENT_BYTES)
    for _ in range(10):
        log.append_as_leader(bytearray(batch(VALUE)), 1)
    await log.close()
    last = max(name for name in disk.list_directory(str(tmp_path)) if name.endswith(".log"))
    before = len(os.listdir("/dev/fd"))
    call = getattr(RealDisk, operation)

    def refuse(self: RealDisk, path: str, **options: object) -> object:
        if path in (f"{tmp_path}/{last}", str(tmp_path)):
            raise OSError(errno.EACCES, "injected", path)
        return call(self, path, **options)

    monkeypatch.setattr(RealDisk, operation, refuse)
    with pytest.raises(StorageFailure, match="injected"):
        open_log(disk, str(tmp_path), segment_bytes=SEGMENT_BYTES)
    assert len(os.listdir("/dev/fd")) == before
    disk.close()


async def test_a_sync_needs_no_descriptor(tmp_path: Path) -> None:
    """The first sync of a process has none to wait for yet."""
    disk = RealDisk()
    log = open_log(disk, str(tmp_path))
    log.append_as_leader(bytearray(batch(b"value")), 1)
    with no_descriptor_left():
        assert await log.sync() == 1
        await disk.replace(str(tmp_path / "file"), b"content")
    assert (log.poisoned, values_in(log), (tmp_path / "file").read_bytes()) == (None, [b"value"], b"content")
    await log.close()
    disk.close()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(os.devnull, os.O_RDONLY)
    taken = [probe]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (probe + 32, hard))
        with suppress(OSError):
            while True:
                taken.append(os.dup(probe))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


def test_disk_opens_its_files_when_sockets_took_all_others(tmp_path: Path) -> None:
    disk = RealDisk()
    path = str(tmp_path / "file")
    with no_descriptor_left():
        for _ in range(3 * SPARE):
            disk.replace_now(path, b"content")
            assert disk.read_bytes(path) == b"content"
        kept = [disk.open(f"{path}-{number}", create=True) for number in range(SPARE // 2)]
        assert not disk.may_keep_another_file()
        disk.replace_now(path, b"still")
        for file in kept:
            file.close()
    assert disk.may_keep_another_file()
    disk.close()


@pytest.mark.parametrize(
    ("open_files", "places"),
    [(1024, 1024 - HEADROOM), (256, 256 - HEADROOM), (100, 50), (1, 1), (20000, 1000)],
)
def test_connections_leave_files_to_the_log(open_files: int, places: int) -> None:
    config = NodeConfig(node_id=1, process_roles=("broker",), metadata_log_dir="/nowhere")
    with structlog.testing.capture_logs() as logged:
        assert fitted(config, open_files).max_connections == places
    assert bool(logged) == (places < config.max_connections)


def test_the_gateway_has_room_for_as_many_connections() -> None:
    config = NodeConfig(
        node_id=1,
        listeners="CONTROLLER://localhost:9093",
        metadata_log_dir="/tmp/a",
        state_machine="kv",
        kv_listener="HTTP://localhost:2379",
        max_connections=5000,
    )
    assert fitted(config, HEADROOM + 600).max_connections == 300
