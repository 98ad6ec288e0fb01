"""Checks a leader's snapshot again when a replica fetches it for a second time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

from kraft_trio.errors import ProtocolError, StorageFailure
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.snapshots.snapshot_reader import read_batches

log = get_logger(__name__)

RECHECK_S: Final = 300.0
"""Shortest time between two checks of one snapshot, because any client can cause a check with two-byte requests."""
MAX_REPLICAS: Final = 1000
"""Limit for the replicas whose complete downloads are remembered.  The oldest is forgotten first."""


class SnapshotScrubber:
    """Finds snapshots that were damaged after they were written.  Owned by LeaderReplication of one epoch.

    A replica checks every byte of a download.  If it starts over after the last byte, the download was damaged or lost.
    The leader then reads its own file to the end, in steps between which other tasks run.  It checks one snapshot at a
    time, and each at most every `RECHECK_S`.
    """

    def __init__(self, log: Log, forget: Callable[[OffsetAndEpoch], None]) -> None:
        """`forget` is called with the id of a damaged snapshot, before another file can take its place."""
        self._log = log
        self._forget = forget
        self._has_had: dict[ReplicaKey, OffsetAndEpoch] = {}
        self._doubted: dict[OffsetAndEpoch, None] = {}
        """The oldest suspicion comes first."""
        self._looked_at: dict[OffsetAndEpoch, float] = {}
        """When the last check of each ended."""
        self._wake = trio.Event()

    def given(self, reader: ReplicaKey, snapshot_id: OffsetAndEpoch, position: int, count: int, size: int) -> None:
        """Note that a replica gets `count` bytes from `position`, of a snapshot of `size` bytes."""
        # A replica fetches one byte to stay in contact.
        if position == 0 and count > 1 and self._has_had.pop(reader, None) == snapshot_id:
            self._doubted[snapshot_id] = None
            self._wake.set()
        if count > 1 and position + count == size:
            self._has_had.pop(reader, None)
            if len(self._has_had) >= MAX_REPLICAS:
                del self._has_had[next(iter(self._has_had))]
            self._has_had[reader] = snapshot_id

    async def run(self) -> None:
        """Check suspect snapshots until cancelled.  Raises StorageFailure if one cannot be read."""
        while True:
            self._forget_deleted()
            due = min(self._doubted, key=self._due_s, default=None)
            with trio.move_on_at(math.inf if due is None else self._due_s(due)):
                await self._wake.wait()
                self._wake = trio.Event()
                continue
            assert due is not None
            del self._doubted[due]
            await self._look_at(due)
            if due in self._log.snapshots.corrupt:
                # Another file with this id may take its place.
                self._looked_at.pop(due, None)
            else:
                self._looked_at[due] = trio.current_time()

    def _due_s(self, snapshot_id: OffsetAndEpoch) -> float:
        return self._looked_at.get(snapshot_id, -math.inf) + RECHECK_S

    def _forget_deleted(self) -> None:
        for known in (self._doubted, self._looked_at):
            for deleted in known.keys() - set(self._log.snapshots.ids):
                del known[deleted]

    async def _look_at(self, snapshot_id: OffsetAndEpoch) -> None:
        snapshots = self._log.snapshots
        path = snapshots.path(snapshot_id)
        if snapshot_id in snapshots.corrupt:
            # Already known to be damaged.  A file that takes its place now is a new one.
            return
        try:
            file = snapshots.open(snapshot_id)
        except KeyError:
            return
        except OSError as error:
            raise StorageFailure(f"{path}: cannot be read: {error}") from error
        try:
            for _ in read_batches(file, snapshot_id.epoch):
                await trio.lowlevel.checkpoint()
        except ProtocolError as error:
            self._forget(snapshot_id)
            snapshots.found_corrupt(snapshot_id, f"{path}: {error}")
            instead = snapshots.newest_intact
            log.error(
                "damaged snapshot: not served any more",
                reason=f"{path}: {error}",
                instead="none" if instead is None else str(instead),
            )
        except OSError as error:
            raise StorageFailure(f"{path}: cannot be read: {error}") from error
        else:
            log.warning("snapshot fetched again by a replica that had all of it; it is whole here", file=path)
        finally:
            file.close()
