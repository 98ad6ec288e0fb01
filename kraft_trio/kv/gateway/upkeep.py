"""What only the leader does for the store: it proposes the time by which leases end and the quota, and compacts."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.errors import NotAppendedError, OutcomeUnknownError, SerdeError, StorageError
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.requests import Advance, CompactionRequest, SetQuota
from kraft_trio.kv.space import DEFAULT_QUOTA_BYTES
from kraft_trio.logs import get_logger

log = get_logger(__name__)

ADVANCE_EVERY_S: Final = 0.5
LARGEST_STEP_MS: Final = 1000
"""A leader that was paused or blocked does not let leases end whose renewals have waited behind it."""
COMPACT_EVERY_S: Final = 60.0
QUOTA_EVERY_S: Final = 10.0


class Upkeep:
    """Runs on each node, and does its work on the one that leads."""

    def __init__(self, service: KvService, keep_revisions: int, quota_bytes: int = DEFAULT_QUOTA_BYTES) -> None:
        """`keep_revisions` is the number of revisions that stay readable; 0 means that nothing is compacted.

        `quota_bytes` is what the store may hold; 0 means that there is no limit.
        """
        self._service = service
        self._keep_revisions = keep_revisions
        self._quota_bytes = quota_bytes

    async def run(self) -> None:
        """Run until cancelled, or until the store has stopped at a record that this version cannot read."""
        try:
            await self._run()
        except (SerdeError, StorageError) as error:
            log.error("the store has stopped; the node keeps replicating and voting", reason=str(error))

    async def _run(self) -> None:
        while True:
            async with self._service.node.leadership() as term, trio.open_nursery() as nursery:
                nursery.start_soon(self._advance, term.epoch)
                nursery.start_soon(self._set_quota, term.epoch)
                if self._keep_revisions:
                    nursery.start_soon(self._compact, term.epoch)

    async def _advance(self, epoch: int) -> None:
        """Propose the time while there are leases.  It stops while nobody leads.

        If a client's record has set the time ahead, it continues from there.
        """
        now_ms = self._service.machine.leases.now_ms
        last_s = trio.current_time()
        while True:
            await trio.sleep(ADVANCE_EVERY_S)
            if not self._service.machine.leases:
                await self._service.has_leases.wait_for(bool)
            elapsed_ms = round((trio.current_time() - last_s) * 1000)
            last_s = trio.current_time()
            now_ms = max(now_ms, self._service.machine.leases.now_ms) + min(elapsed_ms, LARGEST_STEP_MS)
            await self._propose(Advance(now_ms), epoch)

    async def _set_quota(self, epoch: int) -> None:
        """Let the quota of this node be in force, also after a client's record has set another one."""
        while True:
            before = self._service.machine.space.quota_bytes
            if before != self._quota_bytes:
                log.info("quota of the store set", quota_bytes=self._quota_bytes, before=before)
                await self._propose(SetQuota(self._quota_bytes), epoch)
            await trio.sleep(QUOTA_EVERY_S)

    async def _compact(self, epoch: int) -> None:
        """Keep the newest revisions and those that were made since the last look."""
        while True:
            revision = self._service.machine.store.revision - self._keep_revisions
            await trio.sleep(COMPACT_EVERY_S)
            if revision > self._service.machine.store.compacted_revision:
                await self._propose(CompactionRequest(revision), epoch)

    async def _propose(self, command: Advance | CompactionRequest | SetQuota, epoch: int) -> None:
        try:
            await self._service.node.append([command], epoch=epoch)
        except (NotAppendedError, OutcomeUnknownError):
            pass  # the term is about to end
