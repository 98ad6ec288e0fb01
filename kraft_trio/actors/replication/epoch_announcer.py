"""BeginQuorumEpoch: the leader tells the voters of its epoch until they fetch."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.protocol.waits import announcement_wait_ms
from kraft_trio.wire.apis.begin_quorum_epoch import (
    BEGIN_QUORUM_EPOCH,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

ANY_VOTER = ReplicaKey(-1)
"""The sender does not know which node it asks."""

LONGEST_INTERVAL: Final = 5
"""The longest interval between two announcements to a bootstrap server, in fetch timeouts."""


def announcement(context: EpochContext, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    """Tells the voter that this node leads the epoch."""
    return BeginQuorumEpochRequest(
        cluster_id=context.cluster_id,
        voter_id=voter.id,
        topic=context.config.topic_name,
        partition=0,
        voter_directory_id=voter.directory_id,
        leader_id=context.key.id,
        leader_epoch=context.epoch,
        leader_endpoints=context.config.advertised_endpoints(),
    )


class EpochAnnouncer:
    """Announces one epoch of this node's leadership (KIP-595 "BeginQuorumEpoch").

    It tells every other voter at once.  Every half fetch timeout, it tells those that have not fetched for that long.

    A leader that a majority has left may have a successor that it cannot reach (KIP-642 "Zombie Leader").  So it also
    announces itself to the bootstrap servers until a majority fetches again.  A node that knows a newer epoch says so.

    Observers ask the bootstrap servers who leads.  A server that is no voter may look for the leader at an address that
    is outdated.  So the leader also announces itself, at growing intervals, to the servers that do not fetch.
    """

    def __init__(self, context: EpochContext, progress: ProgressTable) -> None:
        self._context = context
        self._progress = progress

    async def run(self) -> None:
        interval_s = self._context.config.fetch_timeout_ms / 2 / 1000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_for_successor)
            nursery.start_soon(self._tell_other_servers)
            while True:
                silent_since = trio.current_time() - interval_s
                for voter in self._context.log.voters.voters:
                    endpoint = self._context.addresses.endpoint_of(voter)
                    silent = self._progress.last_fetch_s(voter) <= silent_since
                    if voter.id != self._context.key.id and endpoint is not None and silent:
                        nursery.start_soon(self._announce, voter)
                await trio.sleep(interval_s)

    async def _look_for_successor(self) -> None:
        """Announce to the bootstrap servers while a majority is silent."""
        timeout_s = self._context.config.fetch_timeout_ms / 2 / 1000
        while True:
            voters = self._context.log.voters.voters
            contact_ends_at = self._progress.majority_contact_ends_at(voters, timeout_s, trio.current_time())
            if len(voters) <= 1 or contact_ends_at > trio.current_time():
                await trio.sleep_until(contact_ends_at + 0.001)
                continue
            with trio.move_on_after(timeout_s):
                await self._context.bootstrap.ask_all(self._announce_to_server)
            await trio.sleep(self._context.retry_backoff_s())

    async def _tell_other_servers(self) -> None:
        """Announce to the bootstrap servers at which no voter listens, and that do not fetch."""
        context = self._context
        fetch_timeout_s = context.config.fetch_timeout_ms / 1000
        interval_s = fetch_timeout_s / 2
        while True:
            since_s = trio.current_time() - fetch_timeout_s / 2
            known = {context.addresses.endpoint_of(voter) for voter in context.log.voters.voters}
            known |= self._progress.endpoints(context.config.controller_listener_name, since_s=since_s)
            with trio.move_on_after(fetch_timeout_s):
                await context.bootstrap.ask_all(self._announce_to_server, unless=known)
            await trio.sleep(interval_s)
            interval_s = min(2 * interval_s, LONGEST_INTERVAL * fetch_timeout_s)

    async def _announce_to_server(self, endpoint: Endpoint) -> None:
        request = announcement(self._context, ANY_VOTER)
        try:
            response = await self._context.client.request_apart(endpoint, BEGIN_QUORUM_EPOCH, request, self._timeout_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            log.debug("announcement failed", endpoint=str(endpoint), epoch=self._context.epoch, reason=str(error))
            return
        await self._learn(response)

    @property
    def _timeout_ms(self) -> int:
        config = self._context.config
        return announcement_wait_ms(config.fetch_timeout_ms, config.request_timeout_ms)

    async def _announce(self, voter: Voter) -> None:
        request = announcement(self._context, voter.key)
        try:
            response = await self._context.addresses.ask(voter, BEGIN_QUORUM_EPOCH, request, self._timeout_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            log.debug("announcement failed", voter_id=voter.id, epoch=self._context.epoch, reason=str(error))
            return
        if response.error != ErrorCode.none:
            log.warning("announcement refused", voter_id=voter.id, error=response.error.name)
            return
        await self._learn(response)

    async def _learn(self, response: BeginQuorumEpochResponse) -> None:
        if response.leader_epoch > self._context.epoch:
            await self._context.tell_of_leader(response.leader_epoch, response.leader_id, response.leader_endpoint)
