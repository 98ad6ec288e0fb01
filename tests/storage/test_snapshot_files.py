"""Snapshot files, written as a stream; and Kafka's bytes."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from kraft_trio.errors import DiskFullError, StorageFailure
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, Record, iter_headers
from kraft_trio.storage.batches.batch_header import patch_crc
from kraft_trio.storage.batches.control_records import (
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
)
from kraft_trio.storage.disk import part_file
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.part_file import SPARED_BYTES
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint
from kraft_trio.storage.snapshots.snapshot_reader import (
    ControlState,
    check_snapshot,
    open_snapshot,
    read_control_state,
)
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter
from tests.storage.support import KAFKAS_VOTERS, kafkas_files
from tests.storage.written_snapshots import ID, NAME, PATH, STATE, new_disk, records, values, write

KAFKAS = [("dynamic", OffsetAndEpoch(5, 1)), ("static", OffsetAndEpoch(3, 1))]


class TestKafkas:
    """What Apache Kafka wrote, and what we write for the same content."""

    @pytest.mark.parametrize(("directory", "snapshot_id"), KAFKAS)
    async def test_the_same_content_gives_the_same_bytes_but_for_the_time(
        self, directory: str, snapshot_id: OffsetAndEpoch
    ) -> None:
        name = checkpoint_name(snapshot_id)
        kafkas = kafkas_files(directory)[name]
        disk = new_disk()
        disk.replace_now(f"/d/{name}", kafkas)
        state = read_control_state(disk, f"/d/{name}", snapshot_id)
        found = [record for record in read_checkpoint(kafkas) if isinstance(record, Record)]
        async with SnapshotWriter(disk, "/d", snapshot_id, state) as writer:
            await writer.append(NewRecord(record.value, record.key) for record in found)
            await writer.finish()
        ours = disk.read_bytes(f"/d/{name}")
        assert ours != kafkas
        # Kafka stamps each batch with the time at which it was written; ours are the same on every replica.
        assert _with_times_of(ours, kafkas) == kafkas

    @pytest.mark.parametrize(("directory", "snapshot_id"), KAFKAS)
    def test_they_are_whole(self, directory: str, snapshot_id: OffsetAndEpoch) -> None:
        disk = new_disk()
        name = checkpoint_name(snapshot_id)
        content = kafkas_files(directory)[name]
        disk.replace_now(f"/d/{name}", content)
        summary = check_snapshot(disk, f"/d/{name}", snapshot_id)
        assert (summary.size_in_bytes, summary.batch_count, summary.record_count) == (len(content), 3, 1)
        is_dynamic = directory == "dynamic"
        assert summary.control_state.voters == (KAFKAS_VOTERS if is_dynamic else None)
        assert summary.control_state.kraft_version == int(is_dynamic)


def _with_times_of(ours: bytes, kafkas: bytes) -> bytes:
    """Our batches with Kafka's times."""
    parts = []
    for (position, header), (_, theirs) in zip(iter_headers(ours), iter_headers(kafkas), strict=True):
        batch = bytearray(ours[position : position + header.size_in_bytes])
        batch[27:35] = theirs.base_timestamp_ms.to_bytes(8, "big")
        batch[35:43] = theirs.max_timestamp_ms.to_bytes(8, "big")
        patch_crc(batch)
        parts.append(bytes(batch))
    return b"".join(parts)


class TestWriter:
    @pytest.fixture(params=["real", "simulated"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disk, str]]:
        disk: Disk = RealDisk() if request.param == "real" else new_disk()
        yield disk, str(tmp_path) if request.param == "real" else "/d"
        disk.close()

    async def test_what_is_written_is_read(self, place: tuple[Disk, str]) -> None:
        disk, directory = place
        producers = ProducerStates()
        producers.record(7, 2, 0, 3, 4, 1000)
        state = ControlState(5000, KAFKAS_VOTERS, 1, encode_producer_snapshot(producers))
        await write(disk, records(100), directory=directory, state=state)
        assert disk.list_directory(directory) == [NAME]
        summary = check_snapshot(disk, f"{directory}/{NAME}", ID)
        assert (summary.snapshot_id, summary.record_count, summary.control_state) == (ID, 100, state)
        assert summary.size_in_bytes == len(disk.read_bytes(f"{directory}/{NAME}"))
        assert values(disk, f"{directory}/{NAME}") == [record.value for record in records(100)]
        assert read_control_state(disk, f"{directory}/{NAME}", ID) == state

    async def test_the_bytes_depend_on_the_records_alone(self) -> None:
        disk = new_disk()
        await write(disk, records(50))
        once = disk.read_bytes(PATH)
        await write(disk, *([record] for record in records(50)))
        assert disk.read_bytes(PATH) == once
        await write(disk, records(50)[:49])
        assert disk.read_bytes(PATH) != once

    async def test_a_record_larger_than_a_batch_is_one_of_its_own(self) -> None:
        disk = new_disk()
        await write(disk, [NewRecord(b"a"), NewRecord(b"x" * 5000), NewRecord(b"b"), NewRecord(b"c")])
        counts = [batch.header.record_count for batch in open_snapshot(disk, PATH, ID)]
        assert counts == [3, 1, 1, 2, 1]

    async def test_keys_headers_and_null_values_are_kept(self) -> None:
        disk = new_disk()
        written = [NewRecord(None, b"key"), NewRecord(b"v", None, (("name", b"x"), ("other", None))), NewRecord(b"")]
        await write(disk, written)
        found = [record for record in read_checkpoint(disk.read_bytes(PATH)) if isinstance(record, Record)]
        assert [(r.value, r.key, r.headers, r.offset, r.timestamp_ms) for r in found] == [
            (w.value, w.key, w.headers, 3 + at, 5000) for at, w in enumerate(written)
        ]

    async def test_one_without_records_has_header_and_footer(self) -> None:
        disk = new_disk()
        await write(disk)
        assert list(read_checkpoint(disk.read_bytes(PATH))) == [
            SnapshotHeader(5000),
            KRaftVersion(1),
            VotersRecord(KAFKAS_VOTERS),
            SnapshotFooter(),
        ]
        await write(disk, state=ControlState(5000))
        assert list(read_checkpoint(disk.read_bytes(PATH))) == [SnapshotHeader(5000), SnapshotFooter()]

    @pytest.mark.parametrize("state", [ControlState(0, KAFKAS_VOTERS, 0), ControlState(0, None, 1)])
    def test_voters_go_with_their_version(self, state: ControlState) -> None:
        disk = new_disk()
        with pytest.raises(ValueError, match=r"at kraft\.version [01]: expected from 1 on"):
            SnapshotWriter(disk, "/d", ID, state)
        assert disk.list_directory("/d") == []

    async def test_it_is_synced_then_renamed_then_its_directory_synced(self) -> None:
        disk = new_disk()
        calls: list[str] = []
        writer = SnapshotWriter(disk, "/d", ID, STATE)
        disk.hook = lambda operation, path: calls.append(operation)
        await writer.append(records(5))
        assert not disk.exists(PATH)
        await writer.finish()
        assert calls == ["append", "append", "append", "sync", "rename", "sync_directory"]
        assert disk.durable_bytes(PATH) == disk.peek(PATH)
        assert disk.mode(PATH) == 0o400

    async def test_an_fsync_failing_in_the_background_leaves_no_snapshot(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(part_file, "SYNC_EVERY_BYTES", 4000)
        for failing in range(1, 5):
            disk = new_disk()
            syncs = 0

            def hook(operation: str, path: str, failing: int = failing) -> None:
                nonlocal syncs
                syncs += operation == "sync"
                if operation == "sync" and syncs == failing:
                    raise OSError(errno.EIO, "injected: EIO", path)

            disk.hook = hook
            with pytest.raises(StorageFailure, match=rf"{PATH}: the snapshot cannot be written: .*injected: EIO"):
                await write(disk, records(150))
            # The simulated disk may fail once; what it says afterwards is not believed.
            assert syncs == failing
            assert disk.list_directory("/d") == []

    async def test_leaving_waits_for_the_device_and_keeps_the_reason(
        self, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
    ) -> None:
        monkeypatch.setattr(part_file, "SYNC_EVERY_BYTES", 4000)
        disk = SimulatedDisk(sync_latency=lambda: 1.0)
        disk.make_directory("/d")

        async def broken_off() -> None:
            async with SnapshotWriter(disk, "/d", ID, STATE, batch_bytes=1000) as writer:
                await writer.append(records(60))
                raise ValueError("the application's")

        began = trio.current_time()
        with pytest.raises(ValueError, match="the application's"):
            await broken_off()
        assert trio.current_time() == began + 1.0, "no fsync is under way any more"
        assert disk.list_directory("/d") == []

    async def test_one_that_is_abandoned_leaves_nothing(self, place: tuple[Disk, str]) -> None:
        disk, directory = place
        writer = SnapshotWriter(disk, directory, ID, STATE, batch_bytes=1000)
        await writer.append(records(100))
        assert disk.list_directory(directory) == [f"{NAME}.part"]
        await writer.abandon()
        await writer.abandon()
        assert disk.list_directory(directory) == []

    async def test_a_cancelled_one_leaves_the_earlier_one_as_it_was(self) -> None:
        disk = new_disk()
        await write(disk, records(3))
        before = disk.read_bytes(PATH)
        with trio.CancelScope() as scope:
            async with SnapshotWriter(disk, "/d", ID, STATE, batch_bytes=1000) as writer:
                await writer.append(records(50))
                scope.cancel()
                await writer.append(records(50))
                await writer.finish()
        assert scope.cancelled_caught
        assert disk.list_directory("/d") == [NAME]
        assert disk.read_bytes(PATH) == before

    async def test_the_next_writer_removes_the_part_of_a_killed_process(self) -> None:
        disk = new_disk()
        writer = SnapshotWriter(disk, "/d", ID, STATE, batch_bytes=1000)
        await writer.append(records(100))
        disk.kill()
        with pytest.raises(StorageFailure, match=rf"{PATH}: the snapshot cannot be written: "):
            await writer.append(records(100))
        assert disk.list_directory("/d") == [f"{NAME}.part"]
        await write(disk, records(2))
        assert disk.list_directory("/d") == [NAME]
        assert len(values(disk)) == 2

    @pytest.mark.parametrize("operation", ["append", "sync", "rename", "sync_directory", "open"])
    async def test_a_disk_that_fails_leaves_no_snapshot(self, operation: str) -> None:
        disk = new_disk()
        disk.fail(operation)
        with pytest.raises(StorageFailure, match=rf"{PATH}: the snapshot cannot be written: .*injected: EIO"):
            await write(disk, records(30))
        # A name whose directory could not be synced may be there.
        assert disk.list_directory("/d") == ([NAME] if operation == "sync_directory" else [])
        disk.crash("all")
        assert disk.peek_names("/d") == []

    async def test_a_full_disk_leaves_no_snapshot_and_the_same_free_space(self) -> None:
        disk = new_disk()
        await write(disk, records(3))
        used = len(disk.read_bytes(PATH))
        disk.rename(PATH, "/d/other")
        disk.capacity = used + SPARED_BYTES + 5000
        # The caller can tell a full disk, which may have room again, from one that fails.
        with pytest.raises(DiskFullError, match="bytes are left to the log"):
            await write(disk, records(100))
        assert disk.list_directory("/d") == ["other"]
        disk.fail("append", code=errno.ENOSPC)
        with pytest.raises(DiskFullError, match="injected"):
            await write(disk, records(10))
        assert disk.list_directory("/d") == ["other"]
        await write(disk, records(10))
        assert len(values(disk)) == 10

    async def test_a_crash_at_any_call_leaves_it_whole_or_not_at_all(self) -> None:
        for lose in ("all", "some", "reordered"):
            for after in (False, True):
                point = 0
                while True:
                    point += 1
                    disk = SimulatedDisk(random.Random(f"{lose}/{after}/{point}"))
                    disk.make_directory("/d")
                    disk.crash_at(disk.calls + point, after=after, lose=lose)
                    crashes = disk.crashes
                    try:
                        await write(disk, records(60))
                    except StorageFailure:
                        pass
                    if disk.crashes == crashes:
                        break
                    names = disk.peek_names("/d")
                    assert set(names) <= {NAME, f"{NAME}.part"}
                    if NAME in names:
                        assert values(disk) == [record.value for record in records(60)]
                assert point > 10
