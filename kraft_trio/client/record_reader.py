"""Reading the committed records in order, across changes of the leader (Fetch as a consumer)."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Final

import trio

from kraft_trio.client.connecting import TRY_AGAIN, RefusedError, ask
from kraft_trio.client.leader_connection import ClientSettings, LeaderConnection
from kraft_trio.errors import NetworkError, OffsetOutOfRangeError, ProtocolError
from kraft_trio.storage.batch import Record, check_crc, iter_headers, whole_batches_size
from kraft_trio.storage.record_chunks import record_chunks
from kraft_trio.wire.api import FETCH
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.error_codes import ErrorCode

__all__ = ["OffsetOutOfRangeError", "RecordReader"]

MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 1024 * 1024
_LONG_LIST: Final = 256
"""After one of so many records others may run."""


class RecordReader(AsyncIterator[Record]):
    """An asynchronous iterator over committed records, for one task at a time.

    Raises OffsetOutOfRangeError, RefusedError if the leader refuses the request for good, and ProtocolError for damaged
    batches.
    """

    def __init__(
        self, settings: ClientSettings, from_offset: int, until: int | None, max_decompressed_bytes: int
    ) -> None:
        """From `from_offset` (inclusive) to `until` (exclusive; None: without end).

        Raises ValueError for a negative offset.
        """
        if from_offset < 0:
            raise ValueError(f"from_offset: {from_offset}, expected 0 or more")
        self._settings = settings
        self._leader = LeaderConnection(settings)
        self._position = from_offset
        self._until = until
        self._max_decompressed_bytes = max_decompressed_bytes
        self._ready: deque[Record] = deque()
        self._taken: Iterator[list[Record]] = iter(())
        self.ended = False
        """Whether the reader has come to its end, or was closed."""

    async def aclose(self) -> None:
        """Give the connection up; there is nothing more to read."""
        self.ended = True
        self._ready.clear()
        self._taken = iter(())
        await self._leader.forget()

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
        """Wait for more; returns without any where there was none in time, or the leader has to be found again."""
        try:
            answer = await self._ask()
        except NetworkError:
            await self._find_leader_again()
            return
        if answer.error == ErrorCode.offset_out_of_range:
            raise OffsetOutOfRangeError(
                f"offset {self._position} is not in the log, which begins at {answer.log_start_offset} "
                f"and is committed to {answer.high_watermark}"
            )
        if answer.error in TRY_AGAIN:
            await self._find_leader_again()
            return
        if answer.error != ErrorCode.none:
            raise RefusedError(f"read from offset {self._position}: Fetch: {answer.error.name}")
        self._take(answer.records)

    async def _find_leader_again(self) -> None:
        await self._leader.forget()
        await self._settings.back_off()

    async def _ask(self) -> FetchPartitionResponse:
        leader = await self._leader.get()
        partition = FetchPartition(
            topic_name=self._settings.topic_name,
            topic_id=leader.topic_id,
            partition=0,
            fetch_offset=self._position,
            max_bytes=MAX_BYTES,
        )
        request = FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, max_bytes=MAX_BYTES, partitions=(partition,))
        response = await ask(leader.connection, FETCH, request, MAX_WAIT_MS + self._settings.request_timeout_ms)
        if response.error != ErrorCode.none or len(response.partitions) != 1:
            raise NetworkError(f"Fetch: {response.error.name}, {len(response.partitions)} partitions answered")
        return response.partitions[0]

    def _take(self, records: bytes) -> None:
        """Take over the whole batches; one that the size limit has cut comes again with the next fetch."""
        size = whole_batches_size(records)
        if records and not size:
            raise ProtocolError(f"Fetch at offset {self._position}: {len(records)} bytes without one whole batch")
        self._taken = self._decoded(records[:size])

    def _decoded(self, batches: bytes) -> Iterator[list[Record]]:
        """Their records, in lists that each take a few milliseconds at most and little memory."""
        for position, header in iter_headers(batches):
            check_crc(batches, position, header)
            if not header.is_control:
                for records in record_chunks(batches, position, header, self._max_decompressed_bytes):
                    wanted = [record for record in records if self._is_wanted(record.offset)]
                    if wanted:
                        # Whoever reads on after an error does not get them again.
                        self._position = min(wanted[-1].offset + 1, header.next_offset)
                    yield wanted
            self._position = max(self._position, header.next_offset)

    def _is_wanted(self, offset: int) -> bool:
        return offset >= self._position and (self._until is None or offset < self._until)
