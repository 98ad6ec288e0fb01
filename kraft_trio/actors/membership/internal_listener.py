"""Announces what the log now says about the voters and kraft.version.

The log has folded the records already (rule R2).  Code that decides by the set in force reads the log, not this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.logs import get_logger
from kraft_trio.messages import ElectionMessage, VotersChanged
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.directory.removal_marker import RemovalMarker
from kraft_trio.storage.log.log import Log

log = get_logger(__name__)


class InternalListener:
    """Watches the log for changes of the voter set or kraft.version, by append or by truncation (KIP-853).

    It closes connections to replicas that are not voters any more, because of a removal or a truncated addition.
    """

    def __init__(
        self,
        log: Log,
        tell_election: Callable[[ElectionMessage], Awaitable[None]],
        clients: Sequence[NetworkClient],
        own_removal: OwnRemoval,
    ) -> None:
        self._log = log
        self._tell_election = tell_election
        self._clients = clients
        self._own_removal = own_removal
        self._static_voters_ignored = False

    async def run(self) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            await self._watch(nursery)

    async def _watch(self, nursery: trio.Nursery) -> None:
        history = self._log.voters
        told = (history.voters, history.kraft_version)
        self._report_ignored_voters()
        while True:
            if self._own_removal.is_due:
                nursery.start_soon(self._own_removal.run)
            while (now := (history.voters, history.kraft_version)) == told:
                await self._log.voters_changed.park()
            self._tell_clients(told[0], now[0])
            told = now
            voters, kraft_version = now
            log.info(
                "voters in force",
                voters=[str(voter.key) for voter in voters],
                kraft_version=kraft_version,
                offset=history.voters_offset,
            )
            self._report_ignored_voters()
            await self._tell_election(VotersChanged(voters, kraft_version))

    def _report_ignored_voters(self) -> None:
        """Log once that the voters in the configuration do not count (KIP-853 "controller.quorum.voters")."""
        ignored = self._log.voters.ignores_static_voters
        if ignored and not self._static_voters_ignored:
            log.warning(
                "controller.quorum.voters is ignored: the log names the voters",
                ignored=list(self._log.voters.static_voters.ids),
                voters=list(self._log.voters.voters.ids),
            )
        self._static_voters_ignored = ignored

    def _tell_clients(self, before: VoterSet, voters: VoterSet) -> None:
        still = _endpoints(voters)
        for client in self._clients:
            for endpoint in still:
                client.expect(endpoint)
            for endpoint in _endpoints(before):
                if endpoint not in still:
                    client.forget(endpoint)


def _endpoints(voters: VoterSet) -> list[Endpoint]:
    return [endpoint for voter in voters for _, endpoint in voter.endpoints]


class OwnRemoval:
    """Stores whether this replica was removed from the voters; AutoJoin reads it, InternalListener runs it."""

    def __init__(self, log: Log, key: ReplicaKey, marker: RemovalMarker) -> None:
        self._log = log
        self._key = key
        self._marker = marker
        self._is_running = False

    @property
    def is_due(self) -> bool:
        """Whether the marker may have to change and `run` is not running."""
        return not self._is_running and (self._key in self._log.voters.removed or self._marker.is_set)

    async def run(self) -> None:
        """Update the marker until all voter changes are committed.  Raises StorageFailure, which ends the node."""
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
