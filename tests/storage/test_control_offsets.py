"""Control records of a leader that are not each at an offset of their own are refused before anything is written."""

from __future__ import annotations

import pytest

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.control_records import KRaftVersion, LeaderChange
from kraft_trio.storage.batch import encode_control_batch
from kraft_trio.storage.batch_header import patch_crc
from kraft_trio.storage.log_append import plan_follower_append

LAST_OFFSET_DELTA_POSITION = 23
SECOND_OFFSET_DELTA = 2  # zigzag of 1


def two_records() -> bytearray:
    return bytearray(encode_control_batch([LeaderChange(1, (1,), (1,)), KRaftVersion(1)], timestamp_ms=0))


def test_sound_ones_are_taken() -> None:
    assert [offset for offset, _ in plan_follower_append(two_records(), 0, 0, None).control_records] == [0, 1]


def test_a_repeated_offset_is_refused() -> None:
    batch = two_records()
    first_length = batch[61] // 2
    second = 61 + 1 + first_length
    assert batch[second + 3] == SECOND_OFFSET_DELTA
    batch[second + 3] = 0
    patch_crc(batch)
    with pytest.raises(ProtocolError, match="offset"):
        plan_follower_append(batch, 0, 0, None)


def test_a_count_that_leaves_offsets_out_is_refused() -> None:
    batch = two_records()
    batch[LAST_OFFSET_DELTA_POSITION : LAST_OFFSET_DELTA_POSITION + 4] = (5).to_bytes(4, "big")
    patch_crc(batch)
    with pytest.raises(ProtocolError, match="2 records with last offset delta 5"):
        plan_follower_append(batch, 0, 0, None)
