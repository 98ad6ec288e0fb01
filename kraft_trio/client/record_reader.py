"""Reading the committed records in order, across changes of the leader."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Final

import trio

from kraft_trio.client.leader_finder import LeaderKeeper
from kraft_trio.errors import ClientClosedError, NetworkError, OffsetOutOfRangeError, ProtocolError
from kraft_trio.storage.batches.batch import Record, check_crc, iter_headers, whole_batches_size
from kraft_trio.storage.batches.record_chunks import record_chunks
from kraft_trio.wire.error_codes import ErrorCode

MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 1024 * 1024
_LONG_LIST: Final = 256
"""After a list of this many records or more, the reader lets other tasks run."""


class RecordReader(AsyncIterator[Record]):
    """An asynchronous iterator over committed records, for one task at a time.

    Raises OffsetOutOfRangeError, RefusedError if the leader refuses to be read from, ProtocolError for damaged batches,
    and UnsupportedVersionError.  A cancelled read loses no record: the next one continues where it was.
    """

    def __init__(self, leader: LeaderKeeper, from_offset: int, until: int | None, max_decompressed_bytes: int) -> None:
        """Read from `from_offset` (inclusive) to `until` (exclusive, None for without end), and own `leader`.

        Raises ValueError for a negative offset.
        """
        if from_offset < 0:
            raise ValueError(f"from_offset: {from_offset}, expected 0 or more")
        self._leader = leader
        self._position = from_offset
        self._until = until
        self._max_decompressed_bytes = max_decompressed_bytes
        self._ready: deque[Record] = deque()
        self._taken: Iterator[list[Record]] = iter(())
        self.ended = False
        """Whether the reader has reached its end or was closed."""

    async def aclose(self) -> None:
        """Close the connection and end the iteration."""
        self.ended = True
        self._ready.clear()
        self._taken = iter(())
        await self._leader.aclose()

    async def __anext__(self) -> Record:
        while not self._ready:
            more = next(self._taken, None)
            if more is not None:
                self._ready += more
                if not 0 < len(more) < _LONG_LIST:
                    await trio.lowlevel.checkpoint()
                continue
            if self._until is not None and self._position >= self._until:
                await self.aclose()
            if self.ended:
                raise StopAsyncIteration
            await self._fetch()
        return self._ready.popleft()

    async def _fetch(self) -> None:
        """Fetch once.  There may be no new records afterwards; a leader that fails is replaced."""
        try:
            leader = await self._leader.find()
            answer = await leader.fetch(self._position, max_bytes=MAX_BYTES, max_wait_ms=MAX_WAIT_MS)
        except ClientClosedError:
            return
        except NetworkError:
            await self._leader.prepare_another()
            return
        if answer.error == ErrorCode.offset_out_of_range:
            error = OffsetOutOfRangeError(
                f"offset {self._position} is not in the log, which begins at {answer.log_start_offset} "
                f"and is committed to {answer.high_watermark}"
            )
            error.is_trimmed = self._position < answer.log_start_offset
            raise error
        self._take(answer.records)

    def _take(self, records: bytes) -> None:
        """Keep the whole batches.  A batch that the size limit has cut comes again with the next fetch."""
        size = whole_batches_size(records)
        if records and not size:
            raise ProtocolError(f"Fetch at offset {self._position}: {len(records)} bytes without one whole batch")
        self._taken = self._decoded(records[:size])

    def _decoded(self, batches: bytes) -> Iterator[list[Record]]:
        """The records in lists.  Each list takes a few milliseconds at most, and little memory."""
        for position, header in iter_headers(batches):
            check_crc(batches, position, header)
            if not header.is_control:
                for records in record_chunks(batches, position, header, self._max_decompressed_bytes):
                    wanted = [record for record in records if self._is_wanted(record.offset)]
                    if wanted:
                        # A caller that reads on after an error does not get these records again.
                        self._position = min(wanted[-1].offset + 1, header.next_offset)
                    yield wanted
            self._position = max(self._position, header.next_offset)

    def _is_wanted(self, offset: int) -> bool:
        return offset >= self._position and (self._until is None or offset < self._until)
