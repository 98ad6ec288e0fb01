"""Gives committed records to the application in order, each once per process, and snapshots of older ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from typing import Final

import trio

from kraft_trio.actors.application.record_decoder import RecordDecoder
from kraft_trio.actors.snapshots.snapshot_taker import SnapshotTaker
from kraft_trio.application.state_machine import StateSnapshots
from kraft_trio.errors import (
    BadRecordError,
    CorruptLogError,
    CorruptSnapshotError,
    NodeClosedError,
    ProtocolError,
    StorageError,
    StorageFailure,
)
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import BatchHeader, Record, iter_headers
from kraft_trio.storage.disk.disk import Buffer, DiskFile
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.snapshots.snapshot_reader import batches_of

log = get_logger(__name__)

OnCommit = Callable[[Sequence[Record]], Awaitable[None]]

_READ_BYTES = 1024 * 1024
"""Bytes of the log to read at a time."""
PROMPT_RECORDS: Final = 16
_PROMPT_BYTES: Final = 64 * 1024
"""Most that is applied in the step of the task that moves the high watermark."""


async def committed_batches(
    log: Log, from_offset: int, decoder: RecordDecoder, has_ended: Callable[[], bool] = lambda: False
) -> AsyncGenerator[list[Record], None]:
    """Yield the data records of committed batches from `from_offset` (inclusive) on, and wait for more at the end.

    A large batch comes as several lists.  Control records are skipped.  After a cancellation, continue after the last
    offset that was seen.  Raises OffsetOutOfRangeError if a snapshot has replaced the records, CorruptLogError for
    records that cannot be read, and NodeClosedError at the end if the node has ended.
    """
    offset = from_offset
    while True:
        while log.high_watermark is None or offset >= log.high_watermark:
            if has_ended():
                raise NodeClosedError("committed: the node has stopped")
            await log.high_watermark_moved.park()
        began_at = offset
        for header, batch in log.iter_batches(offset, log.high_watermark):
            # A reader of a long log must not keep the event loop for itself.
            await trio.lowlevel.checkpoint()
            if not header.is_control:
                async with aclosing(_readable(log, decoder, header, batch)) as lists:
                    async for records in lists:
                        wanted = [record for record in records if record.offset >= from_offset]
                        if wanted:
                            yield wanted
            offset = header.next_offset
        if offset == began_at:
            # A peer named a high watermark inside a batch: wait for the rest of the batch.
            if has_ended():
                raise NodeClosedError("committed: the node has stopped")
            await log.high_watermark_moved.park()


async def _readable(
    log: Log, decoder: RecordDecoder, header: BatchHeader, batch: Buffer
) -> AsyncGenerator[list[Record], None]:
    """The records of a committed batch, in one list or several.  Raises CorruptLogError."""
    try:
        records = decoder.at_once(batch, header)
        if records is None:
            async with aclosing(decoder.lists(batch, header)) as lists:
                async for some in lists:
                    yield some
        elif records:
            yield records
    except ProtocolError as error:
        raise _unreadable(log, error) from error


def _unreadable(log: Log, error: ProtocolError) -> CorruptLogError:
    return CorruptLogError(f"{log.directory}: committed records that cannot be read: {error}")


class _ApplicationStopped(Exception):
    def __init__(self, reason: CorruptLogError | BadRecordError) -> None:
        super().__init__(reason)
        self.reason = reason


class StateMachineDriver:
    """Calls `on_commit` with the records of each committed batch.  A slow application delays only itself.

    An application with `snapshots` starts with the newest snapshot.  It loads another one if the log no longer has the
    next records, and SnapshotTaker saves its state.
    """

    def __init__(
        self,
        log: Log,
        on_commit: OnCommit,
        decoder: RecordDecoder,
        *,
        snapshots: StateSnapshots | None = None,
        taker: SnapshotTaker | None = None,
        takes_long: Callable[[Sequence[Record]], bool] | None = None,
    ) -> None:
        """`snapshots` and `taker` are both None or both given.

        `takes_long` tells whether `on_commit` awaits anything if it is given these records, up to PROMPT_RECORDS and
        _PROMPT_BYTES.  None: it may always.
        """
        self._log = log
        self._on_commit = on_commit
        self._decoder = decoder
        self._snapshots = snapshots
        self._taker = taker
        self._takes_long = takes_long
        self.applied_offset = 0
        """The application has every committed record below this offset (exclusive)."""
        self._progress = trio.lowlevel.ParkingLot()
        self._task: trio.lowlevel.Task | None = None
        self._has_ended = False
        self._failure: CorruptLogError | BadRecordError | None = None

    @property
    def failure(self) -> CorruptLogError | BadRecordError | None:
        """Why the application has stopped before the node; None if it has not."""
        return self._failure

    async def wait_until_applied(self, offset: int) -> None:
        """Wait until the application has the record at `offset` (inclusive) and all before it.

        Raises CorruptLogError or BadRecordError if earlier records cannot be read or decoded, and NodeClosedError.
        """
        while self.applied_offset <= offset:
            if self._failure is not None:
                raise type(self._failure)(f"offset {offset}: not applied: {self._failure}") from self._failure
            if self._has_ended:
                raise NodeClosedError(f"offset {offset}: the node stopped at offset {self.applied_offset}")
            await self._progress.park()

    def is_waiting_for_this_task(self) -> bool:
        """Whether the application's `on_commit` or `load` runs in the current task, or waits for it in a nursery.

        Such a task must not wait for the application: it would wait for itself.
        """
        task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        while task is not None and task is not self._task:
            nursery = task.parent_nursery
            task = None if nursery is None else nursery.parent_task
        return task is not None

    async def run(self) -> None:
        """Run until cancelled.  An exception of the application is a bug and ends the node.

        The application stops at committed records that cannot be read or decoded, but the node keeps replicating and
        voting.  All replicas have such records, and would otherwise end at each start.
        Raises StorageError if a snapshot has replaced the log and the application cannot load one.
        """
        self._task = trio.lowlevel.current_task()
        try:
            await self._run()
        except _ApplicationStopped as stopped:
            self._failure = stopped.reason
            if self._taker is not None:
                self._taker.application_stopped()
            log.error(
                "the application stops: it cannot be given what was committed",
                applied_offset=self.applied_offset,
                reason=str(stopped.reason),
            )
        finally:
            self._has_ended = True
            self._progress.unpark_all()

    async def _run(self) -> None:
        if self._snapshots is not None and self._log.snapshots.newest is not None:
            await self._load(self._snapshots)
        while True:
            if self.applied_offset < self._log.log_start_offset:
                await self._load_newest()
            elif (end_offset := self._committed_end()) is None or not await self._apply_up_to(end_offset):
                await self._log.committed_news.wait(self._apply_at_once)

    def _committed_end(self) -> int | None:
        return self._log.high_watermark

    async def _apply_up_to(self, end_offset: int) -> bool:
        """Read the log once from the application's offset, and apply that.  Returns whether there was anything."""
        began_at = self.applied_offset
        if began_at >= end_offset:
            return False
        data = self._log.read(began_at, _READ_BYTES, end_offset)
        for position, header in iter_headers(data):
            await self._apply(header, data[position : position + header.size_in_bytes])
        return self.applied_offset > began_at

    def _apply_at_once(self) -> bool:
        """Apply small batches in the step that commits them.  Returns whether the application has all that is there."""
        end_offset, began_at = self._committed_end(), self.applied_offset
        if self._takes_long is None or end_offset is None or began_at < self._log.log_start_offset:
            return False
        if end_offset - began_at > PROMPT_RECORDS or (self._taker is not None and self._taker.state_changes.locked()):
            return False
        data = self._log.read(began_at, _PROMPT_BYTES, end_offset) if began_at < end_offset else b""
        for position, header in iter_headers(data):
            is_all = header.size_in_bytes == len(data)
            if not self._give_at_once(header, data if is_all else data[position : position + header.size_in_bytes]):
                return False
            self._applied_up_to(header.next_offset)
            if self._taker is not None:
                self._taker.applied(header)
        return self.applied_offset >= end_offset

    def _give_at_once(self, header: BatchHeader, batch: bytes) -> bool:
        if header.is_control:
            return True
        if header.record_count > PROMPT_RECORDS:
            return False
        try:
            records = self._decoder.at_once(batch, header)
        except ProtocolError as error:
            raise _ApplicationStopped(_unreadable(self._log, error)) from error
        if records is None:
            return False
        assert self._takes_long is not None, "records that are given at once"
        try:
            if records and self._takes_long(records):
                return False
            if records:
                _run_to_end(self._on_commit(records))
        except BadRecordError as error:
            raise _ApplicationStopped(error) from error
        return True

    async def _apply(self, header: BatchHeader, batch: bytes) -> None:
        if self._taker is None:
            await self._give(header, batch)
            self._applied_up_to(header.next_offset)
            return
        async with self._taker.state_changes:
            await self._give(header, batch)
            self._applied_up_to(header.next_offset)
            self._taker.applied(header)

    async def _give(self, header: BatchHeader, batch: bytes) -> None:
        """Give the application the records of a batch, in one call or, if it is large, in several."""
        if header.is_control:
            return
        try:
            records = self._decoder.at_once(batch, header)
        except ProtocolError as error:
            raise _ApplicationStopped(_unreadable(self._log, error)) from error
        if records is not None:
            if records:
                await self._commit(records)
            return
        async with aclosing(self._decoder.lists(batch, header)) as lists:
            try:
                first, second = await anext(lists, None), await anext(lists, None)
                if second is not None:
                    # All of the batch or nothing, because a snapshot must not have a part of a batch.
                    await self._decoder.check(batch, header)
            except ProtocolError as error:
                raise _ApplicationStopped(_unreadable(self._log, error)) from error
            for some in (first, second):
                if some is not None:
                    await self._commit(some)
            async for some in lists:
                await self._commit(some)

    async def _commit(self, records: Sequence[Record]) -> None:
        try:
            await self._on_commit(records)
        except BadRecordError as error:
            raise _ApplicationStopped(error) from error

    def _applied_up_to(self, end_offset: int) -> None:
        self.applied_offset = end_offset
        if self._progress:
            self._progress.unpark_all()

    # Loading

    async def _load_newest(self) -> None:
        if self._snapshots is None:
            raise StorageError(
                f"{self._log.directory}: the log begins at offset {self._log.log_start_offset}; an application with "
                f"on_commit alone needs it from offset {self.applied_offset} on: give open_node snapshots="
            )
        await self._load(self._snapshots)

    async def _load(self, snapshots: StateSnapshots) -> None:
        """Replace the application's state by the newest snapshot.  Other tasks run while it is read."""
        assert self._taker is not None, "snapshots without a taker"
        async with self._taker.state_changes:
            snapshot_id = self._log.snapshots.newest
            assert snapshot_id is not None, f"the log begins at offset {self._log.log_start_offset} without a snapshot"
            with _reading(self._log.snapshots.path(snapshot_id)):
                state = self._log.snapshots.control_state(snapshot_id)
                # It is deleted if a newer one comes while the application loads it.
                file = self._log.snapshots.open(snapshot_id)
            with closing(file):
                async with aclosing(self._records_of(file, snapshot_id)) as records:
                    await snapshots.load(snapshot_id.offset, records)
            self._applied_up_to(snapshot_id.offset)
            self._taker.loaded(snapshot_id.offset, state)
        log.info("snapshot given to the application", snapshot_id=str(snapshot_id))

    async def _records_of(self, file: DiskFile, snapshot_id: OffsetAndEpoch) -> AsyncGenerator[Sequence[Record], None]:
        # Errors that the application raises in `load` do not pass through here.
        with _reading(file.path), closing(batches_of(file, snapshot_id)) as batches:
            for batch in batches:
                await trio.lowlevel.checkpoint()
                if batch.header.is_control:
                    continue
                async with aclosing(self._decoder.lists(batch.data, batch.header)) as lists:
                    while True:
                        try:
                            records = await anext(lists, None)
                        except ProtocolError as error:
                            raise CorruptSnapshotError(f"{file.path}: position {batch.position}: {error}") from error
                        if records is None:
                            break
                        yield records


def _run_to_end(call: Awaitable[None]) -> None:
    """Run a call that waits for nothing."""
    for _ in call.__await__():
        raise AssertionError("on_commit waits, although these records are said not to take long")


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailure(f"{path}: the snapshot cannot be read: {error}") from error
