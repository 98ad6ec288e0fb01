"""Keeps note, durably, that this replica was removed from the voters, for as long as nobody adds it again."""

from __future__ import annotations

import structlog

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.storage.log import Log
from kraft_trio.storage.removal_marker import RemovalMarker

log = structlog.get_logger(__name__)


class OwnRemoval:
    """Owns the marker, which AutoJoin reads; InternalListener starts it when the voters have changed."""

    def __init__(self, log: Log, key: ReplicaKey, marker: RemovalMarker) -> None:
        self._log = log
        self._key = key
        self._marker = marker
        self._is_running = False

    @property
    def is_due(self) -> bool:
        """Whether the marker may have to change, and nobody sees to it."""
        return not self._is_running and (self._key in self._log.voters.removed or self._marker.is_set)

    async def run(self) -> None:
        """Until all changes of the voters have committed.  Raises StorageFailure: the node ends with that."""
        self._is_running = True
        try:
            await self._note_what_has_committed()
            while self._log.voters.uncommitted(self._log.high_watermark):
                await self._log.changed.park()
                await self._note_what_has_committed()
        finally:
            self._is_running = False

    async def _note_what_has_committed(self) -> None:
        history, high_watermark = self._log.voters, self._log.high_watermark
        if high_watermark is None:
            return
        if self._key in history.removed_at(high_watermark - 1):
            if not self._marker.is_set:
                log.info("removed from the voters; this replica does not join again by itself", replica=str(self._key))
                await self._marker.set()
                await self._note_what_has_committed()
        elif self._marker.is_set and any(voter.key == self._key for voter in history.voters_at(high_watermark - 1)):
            log.info("among the voters again", replica=str(self._key))
            self._marker.clear()
