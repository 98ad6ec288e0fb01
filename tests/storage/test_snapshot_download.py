"""A snapshot that comes in pieces: exact positions, checked as a whole, there only when it is whole and durable."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import trio

from kraft_trio.errors import CorruptSnapshotError, DiskFullError, ProtocolError, StorageFailure
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import encode_control_batch
from kraft_trio.storage.batches.batch_header import CONTROL_ATTRIBUTE, HEADER_BYTES
from kraft_trio.storage.batches.control_records import SnapshotHeader
from kraft_trio.storage.snapshots import snapshot_reader
from kraft_trio.storage.snapshots.snapshot_download import BATCHES_AT_A_TIME, SnapshotDownload
from kraft_trio.storage.snapshots.snapshot_reader import MAX_CONTROL_BATCH_BYTES, ControlState, check_snapshot
from tests.storage.support import KAFKAS_VOTERS, kafkas_files, write_snapshot

ID = OffsetAndEpoch(5, 1)
NAME = "00000000000000000005-0000000001.checkpoint"
PATH = f"/d/{NAME}"
WHOLE = kafkas_files("dynamic")[NAME]


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    return disk


async def fetch(download: SnapshotDownload, whole: bytes = WHOLE, piece: int = 50) -> None:
    while not download.is_complete:
        at = download.position
        await download.append(at, whole[at : at + piece], len(whole))


def header_of(*, is_control: bool) -> bytes:
    """The header of a batch of almost 2 GiB, which is where a snapshot's header should be."""
    header = bytearray(encode_control_batch([SnapshotHeader(0)], timestamp_ms=0, leader_epoch=ID.epoch)[:HEADER_BYTES])
    header[8:12] = (2**31 - 1).to_bytes(4, "big")
    if not is_control:
        header[22] &= ~CONTROL_ATTRIBUTE
    return bytes(header)


async def fetch_and_finish(download: SnapshotDownload, whole: bytes) -> None:
    await fetch(download, whole)
    await download.finish()


async def fetch_all(disk: SimulatedDisk) -> None:
    async with SnapshotDownload(disk, "/d", ID) as download:
        await fetch(download)
        await download.finish()


@pytest.mark.parametrize("piece", [1, 50, len(WHOLE)])
async def test_the_pieces_make_the_snapshot(piece: int) -> None:
    disk = new_disk()
    async with SnapshotDownload(disk, "/d", ID) as download:
        assert (download.position, download.size_in_bytes, download.is_complete) == (0, None, False)
        await fetch(download, piece=piece)
        assert disk.list_directory("/d") == [f"{NAME}.part"]
        summary = await download.finish()
    assert disk.read_bytes(PATH) == WHOLE
    assert (disk.mode(PATH), disk.list_directory("/d")) == (0o400, [NAME])
    assert summary == check_snapshot(disk, PATH, ID)
    disk.crash("all")
    assert disk.read_bytes(PATH) == WHOLE


@pytest.mark.parametrize(
    ("position", "data", "size", "message"),
    [
        (40, b"x", 314, "snapshot 5@1: position 40, expected 50"),
        (51, b"x", 314, "snapshot 5@1: position 51, expected 50"),
        (0, b"x", 314, "snapshot 5@1: position 0, expected 50"),
        (50, b"", 314, "snapshot 5@1: 0 bytes at position 50, expected 1 to 264"),
        (50, b"x" * 265, 314, "snapshot 5@1: 265 bytes at position 50, expected 1 to 264"),
        (50, b"x", 315, "snapshot 5@1: size 315, it was 314 before"),
    ],
)
async def test_a_chunk_that_does_not_follow_is_refused(position: int, data: bytes, size: int, message: str) -> None:
    disk = new_disk()
    async with SnapshotDownload(disk, "/d", ID) as download:
        await download.append(0, WHOLE[:50], len(WHOLE))
        with pytest.raises(ProtocolError, match=message):
            await download.append(position, data, size)
        # What was right continues.
        await fetch(download)
        await download.finish()
    assert disk.read_bytes(PATH) == WHOLE


@pytest.mark.parametrize("size", [0, -1])
async def test_a_snapshot_has_bytes(size: int) -> None:
    disk = new_disk()
    async with SnapshotDownload(disk, "/d", ID) as download:
        with pytest.raises(ProtocolError, match="0 bytes at position 0, expected 1 to"):
            await download.append(0, b"", size)
    assert disk.list_directory("/d") == []


async def test_every_damaged_byte_is_found_and_nothing_is_left() -> None:
    for position in range(len(WHOLE)):
        disk = new_disk()
        damaged = bytearray(WHOLE)
        damaged[position] ^= 0x10
        async with SnapshotDownload(disk, "/d", ID) as download:
            with pytest.raises(CorruptSnapshotError, match=rf"{PATH}: .*position"):
                await fetch_and_finish(download, bytes(damaged))
            assert disk.list_directory("/d") == []


async def test_another_snapshot_under_that_id_is_refused() -> None:
    disk = new_disk()
    async with SnapshotDownload(disk, "/d", OffsetAndEpoch(5, 2)) as download:
        with pytest.raises(CorruptSnapshotError, match="epoch 1, expected that of the snapshot's id, 2"):
            await fetch(download)
        assert download.position <= 100, "the first batch shows it"


async def test_cancelled_leaves_nothing_and_interrupted_starts_over() -> None:
    disk = new_disk()
    with trio.CancelScope() as scope:
        async with SnapshotDownload(disk, "/d", ID) as download:
            await download.append(0, WHOLE[:50], len(WHOLE))
            scope.cancel()
            await download.append(50, WHOLE[50:60], len(WHOLE))
    assert disk.list_directory("/d") == []
    download = SnapshotDownload(disk, "/d", ID)
    await download.append(0, WHOLE[:50], len(WHOLE))
    disk.kill()
    assert disk.list_directory("/d") == [f"{NAME}.part"]
    async with SnapshotDownload(disk, "/d", ID) as again:
        assert again.position == 0
        await fetch(again)
        await again.finish()
    assert disk.read_bytes(PATH) == WHOLE


async def test_others_run_while_a_large_one_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    await write_snapshot(
        disk, ID, ControlState(0, KAFKAS_VOTERS, 1), [b"%0150d" % number for number in range(200)], "/d"
    )
    whole = disk.read_bytes(PATH)
    disk.remove(PATH)
    turns = 0
    checked_between_turns = Counter[int]()

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    real_check = snapshot_reader.check_crc

    def check(*arguments: Any) -> None:
        checked_between_turns[turns] += 1
        real_check(*arguments)

    monkeypatch.setattr(snapshot_reader, "check_crc", check)
    async with SnapshotDownload(disk, "/d", ID) as download, trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await fetch(download, whole, len(whole))
        await download.finish()
        nursery.cancel_scope.cancel()
    # One more, because tasks do not always run in the same order in a turn.
    assert max(checked_between_turns.values()) <= 2 * BATCHES_AT_A_TIME < 50
    assert checked_between_turns.total() > 100


async def test_bytes_are_checked_on_arrival_and_reread_only_at_a_cut() -> None:
    disk = new_disk()
    values = [b"%0150d" % number for number in range(200)]
    await write_snapshot(disk, ID, ControlState(0, KAFKAS_VOTERS, 1), values, "/d")
    whole = disk.read_bytes(PATH)
    disk.remove(PATH)
    read: list[int] = []
    async with SnapshotDownload(disk, "/d", ID) as download:
        real_read = download._part.read_at

        def read_at(position: int, size: int) -> bytes:
            assert size < 1000
            read.append(position)
            return real_read(position, size)

        download._part.read_at = read_at  # type: ignore[method-assign]
        await fetch(download, whole, 8000)
        pieces = -(-len(whole) // 8000)
        # At most a header, a header again, and the batch for each place where two pieces meet.
        assert 3 <= pieces - 1 <= len(read) <= 3 * (pieces - 1)
        read.clear()
        await download.finish()
        assert read == [], "all of it has been checked"
    assert disk.read_bytes(PATH) == whole


async def test_what_a_cancelled_piece_left_unchecked_is_checked_later() -> None:
    disk = new_disk()
    values = [b"%0150d" % number for number in range(200)]
    await write_snapshot(disk, ID, ControlState(0, KAFKAS_VOTERS, 1), values, "/d")
    damaged = bytearray(disk.read_bytes(PATH))
    damaged[-100] ^= 1
    disk.remove(PATH)
    async with SnapshotDownload(disk, "/d", ID) as download:
        with trio.CancelScope() as scope:
            scope.cancel()
            await download.append(0, bytes(damaged), len(damaged))
        assert scope.cancelled_caught
        assert download.is_complete
        with pytest.raises(CorruptSnapshotError, match="CRC"):
            await download.finish()
    assert disk.list_directory("/d") == []


async def test_a_piece_is_not_kept() -> None:
    """Its memory is written over by the next one."""
    disk = new_disk()
    memory = bytearray(50)
    async with SnapshotDownload(disk, "/d", ID) as download:
        while not download.is_complete:
            piece = WHOLE[download.position :][:50]
            memory[: len(piece)] = piece
            await download.append(download.position, memoryview(memory)[: len(piece)], len(WHOLE))
            memory[:] = b"\xff" * 50
        await download.finish()
    assert disk.read_bytes(PATH) == WHOLE


@pytest.mark.parametrize("operation", ["open", "append", "sync", "rename"])
async def test_a_disk_that_fails_leaves_no_snapshot(operation: str) -> None:
    disk = new_disk()
    disk.fail(operation)
    with pytest.raises(StorageFailure, match=rf"{PATH}: the snapshot cannot be written: .*injected: EIO"):
        await fetch_all(disk)
    assert disk.list_directory("/d") == []


async def test_a_crash_at_any_call_leaves_it_whole_or_not_at_all() -> None:
    point = 0
    while True:
        point += 1
        disk = SimulatedDisk(random.Random(point))
        disk.make_directory("/d")
        crash_at = disk.calls + (point + 1) // 2
        disk.crash_at(crash_at, after=point % 2 == 0, lose="reordered")
        try:
            await fetch_all(disk)
        except StorageFailure:
            pass
        if disk.calls < crash_at:
            break
        assert set(disk.peek_names("/d")) <= {NAME, f"{NAME}.part"}
        assert disk.peek(PATH) in (None, WHOLE)
    assert point > 20


@pytest.mark.parametrize(
    ("rubbish", "message"),
    [
        (b"\x55" * 100, "position 0"),
        (b"\x00" * 100, "position 0"),
        (header_of(is_control=False), "one header, as its first record"),
        (header_of(is_control=True), f"bytes of control records, expected {MAX_CONTROL_BATCH_BYTES} at most"),
    ],
)
async def test_first_piece_of_rubbish_ends_the_download(rubbish: bytes, message: str) -> None:
    disk = new_disk()
    async with SnapshotDownload(disk, "/d", ID) as download:
        with pytest.raises(CorruptSnapshotError, match=message):
            await download.append(0, rubbish, 2**40)
        assert disk.list_directory("/d") == []


async def test_snapshot_larger_than_the_disk_is_refused_before_anything_is_written() -> None:
    disk = new_disk()
    disk.capacity = 1024**3
    async with SnapshotDownload(disk, "/d", ID) as download:
        with pytest.raises(DiskFullError, match="no room"):
            await download.append(0, WHOLE[:50], 2**62)
        assert download.position == 0
    assert disk.list_directory("/d") == []
