"""A leader's second look at a snapshot that a replica fetches again: it may have been damaged since it was written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import structlog
import trio

from kraft_trio.errors import ProtocolError, StorageFailure
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.storage.log import Log
from kraft_trio.storage.snapshot_reader import read_batches

log = structlog.get_logger(__name__)

RECHECK_S: Final = 300.0
"""From one look at a snapshot to the next one: anybody can raise doubts, by requests of two bytes."""
MAX_REPLICAS: Final = 1000
"""Of how many it is known which snapshot they have had all of; beyond that the first of them is forgotten."""


class SnapshotScrubber:
    """Owned by LeaderReplication of one epoch.

    A replica checks every byte of what it has fetched before it relies on it.  One that begins anew after its last byte
    has found it damaged, or has lost it; the leader then reads its own file again, to the end, while others run.  It
    reads one at a time, and none more often than every `RECHECK_S`; a doubt that comes sooner waits.
    """

    def __init__(self, log: Log, forget: Callable[[OffsetAndEpoch], None]) -> None:
        """`forget` is told of a snapshot that is damaged, before anything takes its place."""
        self._log = log
        self._forget = forget
        self._has_had: dict[ReplicaKey, OffsetAndEpoch] = {}
        self._doubted: dict[OffsetAndEpoch, None] = {}
        """Oldest doubt first."""
        self._looked_at: dict[OffsetAndEpoch, float] = {}
        """When the last look at it ended."""
        self._wake = trio.Event()

    def given(self, reader: ReplicaKey, snapshot_id: OffsetAndEpoch, position: int, count: int, size: int) -> None:
        """That replica is being given `count` bytes from `position` on, of a snapshot of that size."""
        # One byte is asked for to stay in contact.
        if position == 0 and count > 1 and self._has_had.pop(reader, None) == snapshot_id:
            self._doubted[snapshot_id] = None
            self._wake.set()
        if count > 1 and position + count == size:
            self._has_had.pop(reader, None)
            if len(self._has_had) >= MAX_REPLICAS:
                del self._has_had[next(iter(self._has_had))]
            self._has_had[reader] = snapshot_id

    async def run(self) -> None:
        """Look at each snapshot that is doubted, until cancelled.  Raises StorageFailure where it cannot be read."""
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
            if due in self._log.snapshots.unfit:
                # Another one of that id may take its place.
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
        if snapshot_id in snapshots.unfit:
            # Another replica's doubt has shown it; what is being written in its place is not this file.
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
            snapshots.found_unfit(snapshot_id, f"{path}: {error}")
            instead = snapshots.newest_fit
            log.error(
                "damaged snapshot: no replica is given it any more",
                reason=f"{path}: {error}",
                instead="none" if instead is None else str(instead),
            )
        except OSError as error:
            raise StorageFailure(f"{path}: cannot be read: {error}") from error
        else:
            log.warning("snapshot fetched again by a replica that had all of it; it is whole here", file=path)
        finally:
            file.close()
