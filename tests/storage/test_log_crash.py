"""A crash at every storage call of a log's life: what was promised is there afterwards, and the log opens."""

from __future__ import annotations

import random

import pytest
import trio

from kraft_trio.errors import StorageFailure
from kraft_trio.storage.simulated_disk import SimulatedDisk
from tests.storage.support import batch, open_log, values_in

SEGMENT_BYTES = 320


class Life:
    """Appends, syncs, rolls, truncations and a clean close, until the disk crashes at call number `crash_at`."""

    def __init__(self, seed: int, crash_at: int) -> None:
        self.disk = SimulatedDisk(random.Random(seed))
        self.crash_at = crash_at
        self.calls = 0
        self.promised: list[bytes] = []
        """The values that sync said are durable, and nothing has truncated since."""
        self.possible: list[list[bytes]] = [[]]
        """Every content that the log has had since; a crash leaves a prefix of one of them."""

    def count(self, _operation: str, _path: str) -> None:
        self.calls += 1
        if self.calls == self.crash_at:
            self.disk.crash()

    async def run(self) -> None:
        self.disk.hook = self.count
        try:
            log = open_log(self.disk, segment_bytes=SEGMENT_BYTES)
            content: list[bytes] = []
            epoch = 1
            for step in range(14):
                value = b"%d" % step * 20
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
                    log = open_log(self.disk, segment_bytes=SEGMENT_BYTES)
            await log.close()
            self.promised = list(content)
        finally:
            self.disk.hook = None


@pytest.mark.parametrize("seed", range(6))
async def test_what_was_promised_survives_a_crash_at_any_call(seed: int) -> None:
    crash_at = 0
    while True:
        crash_at += 1
        life = Life(seed * 1000 + crash_at, crash_at)
        try:
            await life.run()
        except StorageFailure:
            pass
        if life.calls < crash_at:
            break
        reopened = open_log(life.disk, segment_bytes=SEGMENT_BYTES)
        found = values_in(reopened)
        assert found[: len(life.promised)] == life.promised, f"crash at call {crash_at}"
        assert any(content[: len(found)] == found for content in life.possible), f"crash at call {crash_at}"
        # What is found is durable, and the log can be used.
        life.disk.crash(lose_everything_unsynced=True)
        again = open_log(life.disk, segment_bytes=SEGMENT_BYTES)
        assert values_in(again) == found
        again.append_as_leader(batch(b"after"), again.end.epoch + 1)
        await again.close()
    assert crash_at > 100


async def test_a_failure_of_any_write_or_fsync_poisons_and_promises_nothing_more() -> None:
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
        disk.crash(lose_everything_unsynced=True)
        assert open_log(disk, segment_bytes=SEGMENT_BYTES).end_offset >= synced_end_offset
    assert fail_at > 20
    await trio.lowlevel.checkpoint()
