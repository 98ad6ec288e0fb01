"""Checks the records of produced batches that are large, compressed or unusual, without holding up the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

from kraft_trio.actors.waiting.address_turns import AddressTurns
from kraft_trio.storage.batches.batch_header import COMPRESSION_ATTRIBUTES, BatchHeader
from kraft_trio.storage.batches.record_check import check_steps
from kraft_trio.storage.batches.record_limits import produce_limits
from kraft_trio.storage.disk.record_thread import OffLoop

STEPS_AT_ONCE: Final = 4
"""Steps in the event loop."""
STEPS_A_JOB: Final = 8
"""Steps in one job on the thread.  A job in pure Python takes a few milliseconds.  The event loop waits for the
interpreter lock for at most its switch interval."""
_COMPRESSED_BYTES_AT_ONCE: Final = 16 * 1024
_RECORDS_AT_ONCE: Final = 1024


class RecordChecker:
    """Checks produced records; a node has one.

    A check starts in the event loop.  If it takes more than a few steps, it starts again on a thread, which checks one
    batch at a time.  So a waiting batch holds no more memory than its request.
    """

    def __init__(self, off_loop: OffLoop, max_record_bytes: int, max_decompressed_bytes: int) -> None:
        self._off_loop = off_loop
        self._max_record_bytes = max_record_bytes
        self._max_decompressed_bytes = max_decompressed_bytes
        self._turns = AddressTurns()

    async def check(self, batch: bytes, header: BatchHeader, address: str) -> None:
        """Check the records of the batch of a client at that address.  The caller has checked its CRC.

        Raises LargeRecordError for a record above `max_record_bytes`, and ProtocolError.
        """
        limits = produce_limits(len(batch), self._max_record_bytes, self._max_decompressed_bytes)
        if _may_be_short(header) and not _advance(check_steps(batch, 0, header, limits), STEPS_AT_ONCE):
            return
        async with self._turns.held(address):
            steps = check_steps(batch, 0, header, limits)
            while await self._off_loop.run(partial(_advance, steps, STEPS_A_JOB)):
                pass


def _may_be_short(header: BatchHeader) -> bool:
    if header.attributes & COMPRESSION_ATTRIBUTES:
        return header.size_in_bytes <= _COMPRESSED_BYTES_AT_ONCE
    return header.record_count <= _RECORDS_AT_ONCE


def _advance(steps: Iterator[None], count: int) -> bool:
    """Take up to `count` steps.  Returns whether there may be more."""
    return sum(1 for _ in islice(steps, count)) == count
