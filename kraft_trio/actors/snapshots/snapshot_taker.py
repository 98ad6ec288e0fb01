"""Takes snapshots of the application after enough bytes, enough time, or on request, and trims the log."""

from __future__ import annotations

import math
from typing import Final

import trio

from kraft_trio.actors.snapshots.log_cleaner import LogCleaner
from kraft_trio.application.state_machine import StateSnapshots
from kraft_trio.config import NodeConfig
from kraft_trio.errors import DiskFullError, StorageFailure
from kraft_trio.logs import get_logger
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import BatchHeader
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot, load_producer_snapshot
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter

log = get_logger(__name__)

FULL_DISK_RETRY_S: Final = 60.0
"""Delay before retrying a snapshot that did not fit on the disk."""


class SnapshotTaker:
    """Writes the application's state while the node keeps committing (KIP-630 "When to Snapshot").

    StateMachineDriver tells it of each batch, and holds `state_changes` meanwhile.  So the voters and producers that it
    saves are those at the application's offset, although the log may be longer.
    """

    def __init__(
        self, disk: Disk, log: Log, snapshots: StateSnapshots, config: NodeConfig, cleaner: LogCleaner
    ) -> None:
        self._disk = disk
        self._log = log
        self._snapshots = snapshots
        self._max_bytes = config.snapshot_max_new_bytes
        self._interval_s = config.snapshot_interval_ms / 1000 if config.snapshot_interval_ms else math.inf
        self._cleaner = cleaner
        self._producers = ProducerStates(config.max_producer_ids)
        self._timestamp_ms = -1
        self._end_offset = 0
        self._new_bytes = 0
        """Bytes of the log that the application has received since the last snapshot."""
        self._due = trio.lowlevel.ParkingLot()
        self._failure: StorageFailure | None = None
        self._has_stopped = False
        self.generated_at_s: float | None = None
        """When the last snapshot was complete, on Trio's clock; None if this process has not taken one yet."""
        self._one_at_a_time = trio.Lock()
        log.snapshots.when_corrupt(self._due.unpark_all)
        self.state_changes = trio.Lock()
        """Held while the application's state is between two offsets."""

    # Told by the driver

    def loaded(self, end_offset: int, state: ControlState) -> None:
        """Note that the application has loaded a snapshot."""
        self._end_offset = end_offset
        self._timestamp_ms = state.last_contained_log_timestamp_ms
        self._producers.clear()
        if state.producers:
            load_producer_snapshot(f"snapshot up to offset {end_offset}", state.producers, self._producers)
        self._new_bytes = 0

    def applied(self, header: BatchHeader) -> None:
        """Note that the next batch has been applied.  Control batches count too."""
        self._end_offset = header.next_offset
        self._timestamp_ms = header.max_timestamp_ms
        self._producers.record(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp_ms,
        )
        self._new_bytes += header.size_in_bytes
        if self._new_bytes >= self._max_bytes or self._log.snapshots.corrupt:
            self._due.unpark_all()

    def application_stopped(self) -> None:
        """Note that no more snapshots can be taken: the application has a part of a batch, perhaps."""
        self._has_stopped = True

    # Taking

    async def run(self) -> None:
        """Take a snapshot whenever one is due, until cancelled.

        A snapshot that does not fit on the disk is retried later.  Raises StorageFailure, which ends the node, if any
        snapshot could not be written for another reason.
        """
        while True:
            with trio.move_on_after(self._interval_s):
                while self._new_bytes < self._max_bytes and self._failure is None and not self._is_newest_corrupt():
                    await self._due.park()
            if self._failure is not None:
                raise self._failure
            if self._new_bytes or self._is_newest_corrupt():
                await self._take_if_room()

    async def _take_if_room(self) -> None:
        try:
            await self.take()
        except DiskFullError:
            if self._log.poisoned is not None:
                raise
            await trio.sleep(FULL_DISK_RETRY_S)

    def _is_newest_corrupt(self) -> bool:
        """Whether the newest snapshot is known to be damaged, and another one can be taken."""
        snapshots = self._log.snapshots
        return snapshots.newest in snapshots.corrupt and self._next_id() is not None

    async def take(self) -> OffsetAndEpoch | None:
        """Take a snapshot of the application, and trim the log.  Returns the id of the newest snapshot.

        Writes nothing if the newest snapshot has all that was committed at the call, so that calls that wait for a
        snapshot share the next one.  Returns None if there is nothing to save yet.  A cancelled call leaves a whole
        snapshot or none.  Raises DiskFullError after trimming if there was no room, StorageFailure, and
        NodeClosedError.
        """
        wanted_offset = self._log.high_watermark or 0
        async with self._one_at_a_time:
            if wanted_offset < self._end_offset and self._covers(wanted_offset):
                return self._log.snapshots.newest
            async with self.state_changes:
                snapshot_id = self._next_id()
                if snapshot_id is None:
                    self._new_bytes = 0
                    return self._log.snapshots.newest
                state = self._state()
                records = self._snapshots.save()
                covered_bytes, self._new_bytes = self._new_bytes, 0
            began_at_s = trio.current_time()
            try:
                async with SnapshotWriter(
                    self._disk,
                    self._log.directory,
                    snapshot_id,
                    state,
                    log_end_offset=lambda: self._log.end_offset,
                ) as writer:
                    await writer.append(records)
                    summary = await writer.finish()
            except DiskFullError as error:
                self._new_bytes += covered_bytes
                log.warning("no room for a snapshot", snapshot_id=str(snapshot_id), reason=str(error))
                await self._cleaner.clean()
                raise
            except BaseException as error:
                self._new_bytes += covered_bytes
                if isinstance(error, StorageFailure):
                    self._failure = error
                    self._due.unpark_all()
                raise
            self._log.add_snapshot(snapshot_id)
            self.generated_at_s = trio.current_time()
            log.info(
                "snapshot taken",
                snapshot_id=str(snapshot_id),
                size_in_bytes=summary.size_in_bytes,
                records=summary.record_count,
                seconds=round(trio.current_time() - began_at_s, 3),
            )
            await self._cleaner.clean()
            return self._log.snapshots.newest

    def _next_id(self) -> OffsetAndEpoch | None:
        """The id of the snapshot to take; None if there is one as new already.

        None can be taken if the application has stopped.
        """
        if self._has_stopped or self._covers(self._end_offset):
            return None
        return self._log.next_snapshot_id(self._end_offset)

    def _covers(self, end_offset: int) -> bool:
        """Whether a snapshot has everything before that offset, or the log starts there or later.

        Corrupt snapshots do not count.
        """
        newest = self._log.snapshots.newest_intact
        return end_offset <= max(self._log.log_start_offset, newest.offset if newest is not None else 0)

    def _state(self) -> ControlState:
        history = self._log.voters
        kraft_version = history.kraft_version_at(self._end_offset - 1)
        voters = history.voters_at(self._end_offset - 1) if kraft_version else None
        producers = encode_producer_snapshot(self._producers) if len(self._producers) else b""
        removed = history.removed_at(self._end_offset - 1) if kraft_version else ()
        target = history.target_at(self._end_offset - 1) if kraft_version else ()
        return ControlState(self._timestamp_ms, voters, kraft_version, producers, removed, target)
