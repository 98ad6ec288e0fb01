"""How long the disk takes: from the first write after a sync to the end of the next one."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from kraft_trio.metrics.latencies import SYNC_SAMPLES, RecordTimes
from kraft_trio.storage.segments.log_append import PlannedBatch

BATCH = PlannedBatch(*[0] * len(PlannedBatch._fields))


def write(times: RecordTimes) -> None:
    times.appended(b"", [BATCH], "", 0)


async def test_a_sync_counts_from_the_first_write_that_it_covers(autojump_clock: MockClock) -> None:
    times = RecordTimes(leads=False)
    times.synced(0)
    assert times.sync_p99_ms() is None
    write(times)
    await trio.sleep(0.02)
    write(times)
    await trio.sleep(0.03)
    times.synced(2)
    assert round(times.sync_p99_ms() or 0) == 50
    await trio.sleep(5)
    times.synced(2)
    assert round(times.sync_p99_ms() or 0) == 50


async def test_the_percentile_shows_what_is_rarely_slow_and_forgets_it(autojump_clock: MockClock) -> None:
    times = RecordTimes(leads=True)
    for number in range(2 * SYNC_SAMPLES):
        write(times)
        await trio.sleep(1 if number % 50 == 49 else 0.001)
        times.synced(number)
    assert round(times.sync_p99_ms() or 0) == 1000
    for number in range(SYNC_SAMPLES):
        write(times)
        await trio.sleep(0.001)
        times.synced(number)
    assert round(times.sync_p99_ms() or 0) == 1
