"""Tells everyone what the log now says about the voters and kraft.version.

It publishes what the log has folded already (rule R2): whoever needs the set in force for a decision reads the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from kraft_trio.messages import ElectionMessage, VotersChanged
from kraft_trio.storage.log import Log

log = structlog.get_logger(__name__)


class InternalListener:
    """Watches the log for a change of the newest voter set or kraft.version, by append as by truncation (KIP-853)."""

    def __init__(self, log: Log, tell_election: Callable[[ElectionMessage], Awaitable[None]]) -> None:
        self._log = log
        self._tell_election = tell_election

    async def run(self) -> None:
        history = self._log.voters
        told = (history.voters, history.kraft_version)
        while True:
            while (now := (history.voters, history.kraft_version)) == told:
                await self._log.voters_changed.park()
            told = now
            voters, kraft_version = now
            log.info(
                "voters in force",
                voters=[str(voter.key) for voter in voters],
                kraft_version=kraft_version,
                offset=history.voters_offset,
            )
            await self._tell_election(VotersChanged(voters, kraft_version))
