"""Bytes that the medium has damaged are given to nobody: not to followers, not to consumers, not to the application."""

from __future__ import annotations

import pytest

from kraft_trio.errors import CorruptLogError
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from tests.storage.support import FIRST_SEGMENT, batch, open_log


def test_only_the_damaged_record_is_refused_with_its_position() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value), 1)
    size = log.size_in_bytes // 3
    disk.damage(FIRST_SEGMENT, 2 * size - 1)
    assert len(log.read(0, 1)) == size
    assert len(log.read(2, 1)) == size
    for offset, max_bytes in ((1, 1), (1, 10_000), (0, 10_000)):
        with pytest.raises(CorruptLogError, match=f"position {size}: the batch at offset 1 is damaged"):
            log.read(offset, max_bytes)
    with pytest.raises(CorruptLogError, match="offset 1 is damaged"):
        list(log.iter_batches(0, 3))


@pytest.mark.parametrize("mask", [0x01, 0x7F])
def test_a_damaged_length_is_refused_whichever_way_it_points(mask: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for value in (b"a", b"b"):
        log.append_as_leader(batch(value), 1)
    size = log.size_in_bytes // 2
    disk.damage(FIRST_SEGMENT, size + 11, mask)
    with pytest.raises(CorruptLogError, match=f"position {size}: "):
        log.read(0, 10_000, 2)
