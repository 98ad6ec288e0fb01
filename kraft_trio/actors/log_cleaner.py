"""Trims the log behind its snapshots: regularly, and when one has been taken (KIP-630 "When to Delete")."""

from __future__ import annotations

from typing import Final

import structlog
import trio

from kraft_trio.config import NodeConfig
from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.log import Log
from kraft_trio.storage.retention import RetentionLimits

log = structlog.get_logger(__name__)

INTERVAL_S: Final = 60.0
"""How often what has become too old is looked for, as Kafka does: also where no snapshot is taken."""

SPARED_FETCH_TIMEOUTS: Final = 4
"""For how long a download that stands still is not given up: a request is lost, and the connection made anew."""


class LogCleaner:
    """One per node, in whatever role; what is on disk decides, and nothing that an epoch owns."""

    def __init__(self, log: Log, config: NodeConfig) -> None:
        self._log = log
        self._limits = RetentionLimits(
            None if config.retention_bytes < 0 else config.retention_bytes,
            None if config.retention_ms < 0 else config.retention_ms,
        )
        self._spared_for_s = SPARED_FETCH_TIMEOUTS * config.fetch_timeout_ms / 1000

    async def run(self) -> None:
        """Trim every minute, until cancelled.  Raises StorageFailure: the node ends with that."""
        while True:
            await trio.sleep(INTERVAL_S)
            await self.clean()

    async def clean(self) -> None:
        """Trim now, as the configuration says, and remove what goes.

        Where the newest snapshot is damaged nothing does: it is said, and the next one is waited for.  Raises
        StorageFailure, NodeClosedError.
        """
        try:
            if await self._log.trim(self._limits, self._being_fetched):
                log.info("trimmed", log_start_offset=self._log.log_start_offset)
        except CorruptSnapshotError as error:
            log.error("not trimmed: the newest snapshot is damaged", reason=str(error))
        await self._log.remove_retired()

    def _being_fetched(self) -> frozenset[OffsetAndEpoch]:
        return self._log.snapshots.downloads.under_way(trio.current_time() - self._spared_for_s)
