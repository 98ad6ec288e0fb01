"""Gives committed records to the application, in order, each once per process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from kraft_trio.errors import NodeClosedError
from kraft_trio.storage.batch import Record, decode_records
from kraft_trio.storage.log import Log

OnCommit = Callable[[Sequence[Record]], Awaitable[None]]


async def committed_batches(
    log: Log, from_offset: int, max_decompressed_bytes: int, has_ended: Callable[[], bool] = lambda: False
) -> AsyncGenerator[list[Record], None]:
    """The data records of each committed batch, from `from_offset` (inclusive) on, waiting for more at the end.

    Control records are passed over; a batch that begins below `from_offset` is cut to the records from there on.
    Cancellation loses nothing: begin again after the last offset that was seen.  Raises NodeClosedError where it
    would have to wait for a node that has ended.
    """
    offset = from_offset
    while True:
        while log.high_watermark is None or offset >= log.high_watermark:
            if has_ended():
                raise NodeClosedError("committed: the node has stopped")
            await log.changed.park()
        began_at = offset
        for header, batch in log.iter_batches(offset, log.high_watermark):
            if not header.is_control:
                records = decode_records(batch, 0, header, max_decompressed_bytes)
                wanted = [record for record in records if record.offset >= from_offset]
                if wanted:
                    yield wanted
            offset = header.next_offset
        if offset == began_at:
            # A high watermark inside a batch, from a peer that does not keep to batches: wait for the rest of it.
            await log.changed.park()


class StateMachineDriver:
    """Calls `on_commit` with the records of each committed batch; a slow application delays only itself."""

    def __init__(self, log: Log, on_commit: OnCommit, max_decompressed_bytes: int) -> None:
        self._log = log
        self._on_commit = on_commit
        self._max_decompressed_bytes = max_decompressed_bytes
        self.applied_offset = log.log_start_offset
        """Exclusive: every committed record below it has been given to the application."""

    async def run(self) -> None:
        """Run until cancelled.  An exception of the application's is a bug and ends the node."""
        async with aclosing(
            committed_batches(self._log, self._log.log_start_offset, self._max_decompressed_bytes)
        ) as batches:
            async for records in batches:
                await self._on_commit(records)
                self.applied_offset = records[-1].offset + 1
