"""BeginQuorumEpoch: the leader tells the voters of its epoch until they fetch."""

from __future__ import annotations

import structlog
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.actors.replica_progress import ProgressTable
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.protocol.waits import announcement_wait_ms
from kraft_trio.wire.apis.begin_quorum_epoch import BEGIN_QUORUM_EPOCH, BeginQuorumEpochRequest
from kraft_trio.wire.error_codes import ErrorCode

log = structlog.get_logger(__name__)


class EpochAnnouncer:
    """Announces one epoch of this node's leadership (KIP-595 "BeginQuorumEpoch").

    It tells every other voter at once.  Every half fetch timeout, it tells those that have not fetched for that long.
    """

    def __init__(self, context: EpochContext, progress: ProgressTable) -> None:
        self._context = context
        self._progress = progress

    async def run(self) -> None:
        interval_s = self._context.config.fetch_timeout_ms / 2 / 1000
        async with trio.open_nursery() as nursery:
            while True:
                silent_since = trio.current_time() - interval_s
                for voter in self._context.log.voters.voters:
                    endpoint = voter.endpoints.get(self._context.config.controller_listener_name)
                    silent = self._progress.last_fetch_s(voter) <= silent_since
                    if voter.id != self._context.key.id and endpoint is not None and silent:
                        nursery.start_soon(self._announce, voter, endpoint)
                await trio.sleep(interval_s)

    async def _announce(self, voter: Voter, endpoint: Endpoint) -> None:
        request = BeginQuorumEpochRequest(
            cluster_id=self._context.cluster_id,
            voter_id=voter.id,
            topic=self._context.config.topic_name,
            partition=0,
            voter_directory_id=voter.key.directory_id,
            leader_id=self._context.key.id,
            leader_epoch=self._context.epoch,
            leader_endpoints=self._context.config.advertised_endpoints(),
        )
        config = self._context.config
        timeout_ms = announcement_wait_ms(config.fetch_timeout_ms, config.request_timeout_ms)
        try:
            response = await self._context.client.request(endpoint, BEGIN_QUORUM_EPOCH, request, timeout_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            log.debug("announcement failed", voter_id=voter.id, epoch=self._context.epoch, reason=str(error))
            return
        if response.error != ErrorCode.none:
            log.warning("announcement refused", voter_id=voter.id, error=response.error.name)
            return
        if response.leader_epoch > self._context.epoch:
            await self._context.tell_of_leader(response.leader_epoch, response.leader_id, response.leader_endpoint)
