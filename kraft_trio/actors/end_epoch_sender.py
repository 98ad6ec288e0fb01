"""EndQuorumEpoch: a resigned leader tells the voters, and who should succeed it."""

from __future__ import annotations

import structlog
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.messages import HandedOver, LeaderHeardOf
from kraft_trio.protocol.roles import Resigned
from kraft_trio.protocol.types import Endpoint
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.apis.end_quorum_epoch import END_QUORUM_EPOCH, EndQuorumEpochRequest
from kraft_trio.wire.error_codes import ErrorCode

log = structlog.get_logger(__name__)


class EndEpochSender:
    """Sends EndQuorumEpoch for one resigned epoch to every other voter until each has acknowledged it (KIP-595).

    Then it tells Election, and the run ends; the epoch nursery may cancel it sooner.
    """

    def __init__(self, context: EpochContext, role: Resigned) -> None:
        self._context = context
        self._role = role

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for voter in self._context.log.voters.voters:
                endpoint = voter.endpoints.get(self._context.config.controller_listener_name)
                if voter.id != self._context.key.id and endpoint is not None:
                    nursery.start_soon(self._tell_until_acknowledged, voter, endpoint)
        await self._context.tell_election(HandedOver(self._context.stamp))

    async def _tell_until_acknowledged(self, voter: Voter, endpoint: Endpoint) -> None:
        request = EndQuorumEpochRequest(
            cluster_id=self._context.cluster_id,
            topic=self._context.config.topic_name,
            partition=0,
            leader_id=self._context.key.id,
            leader_epoch=self._context.epoch,
            preferred_successors=tuple(successor.id for successor in self._role.preferred_successors),
            preferred_candidates=self._role.preferred_successors,
        )
        while True:
            try:
                response = await self._context.client.request(
                    endpoint, END_QUORUM_EPOCH, request, self._context.config.request_timeout_ms
                )
            except (NetworkError, UnsupportedVersionError) as error:
                log.info("end of epoch not delivered", voter_id=voter.id, epoch=self._context.epoch, reason=str(error))
                await trio.sleep(self._context.retry_backoff_s())
                continue
            if response.error != ErrorCode.none:
                log.warning("end of epoch refused", voter_id=voter.id, error=response.error.name)
                return
            if response.leader_epoch > self._context.epoch:
                await self._context.tell_election(
                    LeaderHeardOf.told(
                        response.leader_epoch,
                        response.leader_id,
                        response.leader_endpoint,
                        self._context.config.controller_listener_name,
                    )
                )
            return
