"""Trims the log regularly, and after each snapshot (KIP-630 "When to Delete")."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.config import NodeConfig
from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.retention import RetentionLimits

log = get_logger(__name__)

INTERVAL_S: Final = 60.0
"""How often the log is trimmed by age, even if no snapshot is taken; as in Kafka."""

SPARED_FETCH_TIMEOUTS: Final = 4
"""For how many fetch timeouts a stalled download is spared, so that the replica can reconnect."""


class LogCleaner:
    """Runs once per node, in every role.  It depends only on what is on disk."""

    def __init__(self, log: Log, config: NodeConfig) -> None:
        self._log = log
        self._limits = RetentionLimits(
            None if config.retention_bytes < 0 else config.retention_bytes,
            None if config.retention_ms < 0 else config.retention_ms,
        )
        self._spared_for_s = SPARED_FETCH_TIMEOUTS * config.fetch_timeout_ms / 1000

    async def run(self) -> None:
        """Trim every minute until cancelled.  Raises StorageFailure, which ends the node."""
        while True:
            await trio.sleep(INTERVAL_S)
            await self.clean()

    async def clean(self) -> None:
        """Trim now, as the configuration says.

        If the newest snapshot is damaged, this logs it and removes nothing until there is another one.  Raises
        StorageFailure and NodeClosedError.
        """
        try:
            if await self._log.trim(self._limits, self._being_fetched):
                log.info("trimmed", log_start_offset=self._log.log_start_offset)
        except CorruptSnapshotError as error:
            log.error("not trimmed: the newest snapshot is damaged", reason=str(error))
        await self._log.remove_retired()

    def _being_fetched(self) -> frozenset[OffsetAndEpoch]:
        return self._log.snapshots.downloads.under_way(trio.current_time() - self._spared_for_s)
