"""A truncated log knows its producers as if the dropped batches had never been there, and reads little to know it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.producer_history import SPACING_BYTES
from kraft_trio.protocol.producers import Accept, Duplicate, ProducerStates
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.file import SimulatedFile
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.producer_replay import CHUNK_BYTES
from kraft_trio.storage.segments.retention import RetentionLimits
from tests.storage.support import DIRECTORY, open_log, producer_batch, snapshot_state, snapshot_values, write_snapshot

VALUE = b"x" * 50_000
MOST_READ_BYTES = SPACING_BYTES + 256 * 1024
"""One point to the next, and what finding the place takes."""


@contextmanager
def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of all reads within the block."""
    sizes: list[int] = []
    read_at, ensure_readable = SimulatedFile.read_at, SimulatedFile.ensure_readable

    def counting_read(self: SimulatedFile, position: int, size: int) -> bytes:
        sizes.append(size)
        return read_at(self, position, size)

    def counting_ensure(self: SimulatedFile, position: int, size: int) -> int:
        sizes.append(size)
        return ensure_readable(self, position, size)

    with monkeypatch.context() as patch:
        patch.setattr(SimulatedFile, "read_at", counting_read)
        patch.setattr(SimulatedFile, "ensure_readable", counting_ensure)
        yield sizes


def filled(disk: SimulatedDisk, batches: int, *, segment_bytes: int = 1 << 30) -> Log:
    """About 50 kB a batch, all of one producer."""
    log = open_log(disk, segment_bytes=segment_bytes)
    for sequence in range(batches):
        log.append_as_leader(producer_batch(VALUE, sequence), 1)
    return log


def knows_the_last_five_before(log: Log, end: int) -> None:
    for sequence in range(end - 5, end):
        assert log.producers.check(7, 0, sequence, 1) == Duplicate(sequence, sequence)
    assert log.producers.check(7, 0, end, 1) == Accept()


class TestTruncation:
    @pytest.mark.parametrize("reopened", [False, True])
    @pytest.mark.parametrize("segment_bytes", [1 << 30, 300_000])
    @pytest.mark.parametrize("end", [399, 390, 300, 200, 7])
    async def test_truncation_rereads_little(
        self, end: int, segment_bytes: int, reopened: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = SimulatedDisk()
        log = filled(disk, 400, segment_bytes=segment_bytes)
        if reopened:
            await log.close()
            log = open_log(disk, segment_bytes=segment_bytes)
        with counted_reads(monkeypatch) as sizes:
            log.truncate_to(end)
            await log.restore_producers()
        assert sum(sizes) <= MOST_READ_BYTES
        knows_the_last_five_before(log, end)

    async def test_truncation_of_a_log_without_producers_reads_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log = open_log(SimulatedDisk())
        for _ in range(100):
            log.append_as_leader(producer_batch(VALUE, -1, producer_id=-1), 1)
        with counted_reads(monkeypatch) as sizes:
            log.truncate_to(50)
            await log.restore_producers()
        assert sum(sizes) <= 64 * 1024

    def test_truncation_again_and_again(self) -> None:
        log = filled(SimulatedDisk(), 100)
        for end in range(90, 10, -7):
            log.truncate_to(end)
            knows_the_last_five_before(log, end)
            for sequence in range(end, end + 3):
                log.append_as_leader(producer_batch(VALUE, sequence), 2)
            knows_the_last_five_before(log, end + 3)

    async def test_a_producer_that_the_trimmed_part_told_of_stays(self) -> None:
        disk = SimulatedDisk()
        log = filled(disk, 30, segment_bytes=300_000)
        log.append_as_leader(producer_batch(b"other", 0, producer_id=8), 1)
        await log.sync()
        log.advance_high_watermark(20)
        snapshot_id = OffsetAndEpoch(20, 1)
        await write_snapshot(disk, snapshot_id, snapshot_state(log, 20), snapshot_values(log, 20))
        log.add_snapshot(snapshot_id)
        assert await log.trim(RetentionLimits(1, None))
        assert log.log_start_offset > 5
        log.truncate_to(22)
        knows_the_last_five_before(log, 22)
        assert [summary.producer_id for summary in log.producers] == [7]

    async def test_batches_that_cannot_be_read_again_poison(self) -> None:
        disk = SimulatedDisk()
        log = filled(disk, 10)
        disk.damage(f"{DIRECTORY}/{0:020d}.log", len(producer_batch(VALUE, 0)) + 3)
        log.truncate_to(8)
        with pytest.raises(StorageFailure, match="found no batch that begins with offset 1, which was there"):
            await log.restore_producers()
        with pytest.raises(StorageFailure):
            await log.sync()

    async def test_others_run_while_many_batches_are_read_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log = open_log(SimulatedDisk())
        for sequence in range(10_000):
            log.append_as_leader(producer_batch(b"", sequence), 1)
        most = since_turn = 0
        record = ProducerStates.record

        def counted(self: ProducerStates, *fields: int) -> None:
            nonlocal most, since_turn
            since_turn += 1
            most = max(most, since_turn)
            record(self, *fields)

        async def take_turns() -> None:
            nonlocal since_turn
            while True:
                since_turn = 0
                await trio.lowlevel.checkpoint()

        monkeypatch.setattr(ProducerStates, "record", counted)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_turns)
            log.truncate_to(9_990)
            await log.restore_producers()
            nursery.cancel_scope.cancel()
        # One turn may come after two steps.
        assert 0 < most <= 2 * CHUNK_BYTES // HEADER_BYTES < 9_000
        knows_the_last_five_before(log, 9_990)

    @pytest.mark.parametrize("interrupted_by", ["append", "truncation", "trim", "nothing"])
    async def test_restoring_in_steps_can_be_overtaken(self, interrupted_by: str) -> None:
        """What needs the producers before they are all restored takes the rest at once."""
        disk = SimulatedDisk()
        log = filled(disk, 30, segment_bytes=300_000)
        await log.sync()
        log.advance_high_watermark(20)
        snapshot_id = OffsetAndEpoch(20, 1)
        await write_snapshot(disk, snapshot_id, snapshot_state(log, 20), snapshot_values(log, 20))
        log.add_snapshot(snapshot_id)
        log.truncate_to(28)
        end = 28
        match interrupted_by:
            case "append":
                log.append_as_leader(producer_batch(VALUE, 28), 2)
                end = 29
            case "truncation":
                log.truncate_to(25)
                end = 25
            case "trim":
                assert await log.trim(RetentionLimits(1, None))
        await log.restore_producers()
        knows_the_last_five_before(log, end)
