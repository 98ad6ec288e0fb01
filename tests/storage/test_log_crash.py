"""A crash at every change of the disk in a log's life: what was promised is there afterwards, and the log opens."""

from __future__ import annotations

import random

import pytest
import trio

from kraft_trio.errors import StorageFailure
from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.log.log import Log
from tests.storage.support import batch, change, open_log, values_in

SEGMENT_BYTES = 320


class Life:
    """Appends, syncs, rolls, truncations and a clean close, on a disk that crashes at some change.

    The values are of `value_bytes` bytes, and four or five of them make a segment.
    """

    def __init__(self, disk: SimulatedDisk, value_bytes: int, preallocate_bytes: int) -> None:
        self.disk = disk
        self.preallocate_bytes = preallocate_bytes
        self.value_bytes = value_bytes
        self.promised: list[bytes] = []
        """The values that sync said are durable, and nothing has truncated since."""
        self.possible: list[list[bytes]] = [[]]
        """Every content that the log has had since; a crash leaves a prefix of one of them."""

    def open(self) -> Log:
        segment_bytes = 5 * self.value_bytes + 220
        return open_log(self.disk, segment_bytes=segment_bytes, preallocate_bytes=self.preallocate_bytes)

    async def run(self) -> None:
        log = self.open()
        content: list[bytes] = []
        epoch = 1
        for step in range(14):
            value = b"%02d" % step * (self.value_bytes // 2)
            self.possible.append([*content, value])
            log.append_as_leader(batch(value), epoch)
            content.append(value)
            if step % 3 == 1:
                await log.sync()
                self.promised = list(content)
            if step in (5, 11):
                keep = 3 if step == 5 else 5
                # From here on the records above may be gone, and until the next sync may be there.
                self.promised = content[:keep]
                log.truncate_to(keep)
                content = content[:keep]
                self.possible.append(list(content))
                epoch += 1
            if step == 8:
                await log.close()
                self.promised = list(content)
                log = self.open()
        await log.close()
        self.promised = list(content)


@pytest.mark.parametrize("lose", ["all", "some", "reordered"])
@pytest.mark.parametrize("value_bytes", [40, 600, 1400])
@pytest.mark.parametrize("preallocate_bytes", [0, 200, 4096])
async def test_what_was_promised_survives_a_crash_at_any_change(
    value_bytes: int, lose: Loss, preallocate_bytes: int
) -> None:
    crash_at = 0
    while True:
        crash_at += 1
        disk = SimulatedDisk(random.Random(f"{value_bytes}/{crash_at}"))
        disk.crash_at(change(crash_at), lose=lose)
        life = Life(disk, value_bytes, preallocate_bytes)
        try:
            await life.run()
        except StorageFailure:
            pass
        where = f"crash at change {crash_at}"
        disk.clear_faults()
        if not (has_crashed := disk.crashes > 0):
            disk.crash(lose)
        found = values_in(life.open())
        assert found[: len(life.promised)] == life.promised, where
        assert any(content[: len(found)] == found for content in life.possible), where
        # What is found is durable, and the log can be used.
        disk.crash("all")
        again = life.open()
        assert values_in(again) == found, where
        again.append_as_leader(batch(b"after"), again.end.epoch + 1)
        await again.close()
        assert values_in(life.open()) == [*found, b"after"], where
        if not has_crashed:
            break
    assert crash_at > 50


async def test_a_failed_write_or_fsync_poisons_and_promises_no_more() -> None:
    fail_at = 0
    while True:
        fail_at += 1
        disk = SimulatedDisk()
        log = open_log(disk, segment_bytes=SEGMENT_BYTES)
        calls = 0

        def hook(operation: str, _path: str, fail_at: int = fail_at) -> None:
            nonlocal calls
            calls += 1
            if calls == fail_at:
                raise OSError(5, "injected")

        disk.hook = hook
        promised = 0
        try:
            for step in range(12):
                log.append_as_leader(batch(b"%d" % step * 20), 1)
                if step % 3 == 1:
                    promised = await log.sync()
        except StorageFailure:
            assert log.poisoned is not None
            with pytest.raises(StorageFailure):
                await log.sync()
        else:
            assert calls < fail_at
            break
        assert log.synced_end_offset >= promised
        synced_end_offset = log.synced_end_offset
        disk.hook = None
        disk.crash("all")
        assert open_log(disk, segment_bytes=SEGMENT_BYTES).end_offset >= synced_end_offset
    assert fail_at > 20
    await trio.lowlevel.checkpoint()
