"""Control records of a leader that are not each at an offset of their own are refused before anything is written."""

from __future__ import annotations

import pytest

from kraft_trio.errors import ProtocolError
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import encode_control_batch
from kraft_trio.storage.batches.batch_header import patch_crc
from kraft_trio.storage.batches.control_records import KRaftVersion, LeaderChange
from kraft_trio.storage.segments.log_append import plan_follower_append
from tests.storage.support import open_log

LAST_OFFSET_DELTA_POSITION = 23
SECOND_OFFSET_DELTA = 2  # zigzag of 1


def two_records() -> bytearray:
    return bytearray(encode_control_batch([LeaderChange(1, (1,), (1,)), KRaftVersion(1)], timestamp_ms=0))


def test_sound_ones_are_taken() -> None:
    assert [offset for offset, _ in plan_follower_append(two_records(), 0, 0, None).control_records] == [0, 1]


def repeating_an_offset() -> bytearray:
    batch = two_records()
    first_length = batch[61] // 2
    second = 61 + 1 + first_length
    assert batch[second + 3] == SECOND_OFFSET_DELTA
    batch[second + 3] = 0
    patch_crc(batch)
    return batch


def test_a_repeated_offset_is_refused() -> None:
    with pytest.raises(ProtocolError, match="offset"):
        plan_follower_append(repeating_an_offset(), 0, 0, None)


def two_versions(*offset_deltas: int) -> bytearray:
    batch = bytearray(encode_control_batch([KRaftVersion(0), KRaftVersion(1)], timestamp_ms=0))
    start = 61
    for delta in offset_deltas:
        batch[start + 3] = delta * 2  # zigzag
        start += 1 + batch[start] // 2
    patch_crc(batch)
    return batch


@pytest.mark.parametrize("offset_deltas", [(0, 0), (1, 0), (1, 1), (0, 2), (1, 2)])
async def test_a_log_that_refused_them_is_as_it_was_and_opens_again(offset_deltas: tuple[int, int]) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    with pytest.raises(ProtocolError, match="offset delta"):
        log.append_as_follower(two_versions(*offset_deltas))
    assert (log.end_offset, log.poisoned) == (0, None)
    await log.close()
    again = open_log(disk)
    assert again.append_as_follower(two_versions(0, 1)).next_offset == 2
    await again.close()


def test_a_count_that_leaves_offsets_out_is_refused() -> None:
    batch = two_records()
    batch[LAST_OFFSET_DELTA_POSITION : LAST_OFFSET_DELTA_POSITION + 4] = (5).to_bytes(4, "big")
    patch_crc(batch)
    with pytest.raises(ProtocolError, match="2 records with last offset delta 5"):
        plan_follower_append(batch, 0, 0, None)
