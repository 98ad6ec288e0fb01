"""EndQuorumEpoch: a resigned leader tells the voters that its epoch is over, and who should succeed it."""

from __future__ import annotations

import itertools

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.messages import HandedOver
from kraft_trio.protocol.roles import Resigned
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.protocol.waits import vote_wait_ms
from kraft_trio.wire.apis.end_quorum_epoch import END_QUORUM_EPOCH, EndQuorumEpochRequest
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)


ATTEMPTS_BEFORE_HAND_OVER = 3


class EndEpochSender:
    """Sends EndQuorumEpoch for one epoch to every other voter until each has acknowledged it (KIP-595).

    It tells Election that the epoch is handed over once each voter has acknowledged it, or could not be reached a few
    times in a row.  So a node that shuts down need not wait for voters that are down.
    """

    def __init__(self, context: EpochContext, role: Resigned) -> None:
        self._context = context
        self._role = role
        self._untold: set[int] = set()

    async def run(self) -> None:
        others = [
            voter
            for voter in self._context.log.voters.voters
            if voter.id != self._context.key.id and self._context.addresses.endpoint_of(voter) is not None
        ]
        self._untold = {voter.id for voter in others}
        await self._hand_over_if_told()
        async with trio.open_nursery() as nursery:
            for voter in others:
                nursery.start_soon(self._tell_until_acknowledged, voter)

    async def _tell_until_acknowledged(self, voter: Voter) -> None:
        for attempt in itertools.count(1):
            acknowledged = await self._tell(voter)
            if acknowledged or attempt == ATTEMPTS_BEFORE_HAND_OVER:
                self._untold.discard(voter.id)
                await self._hand_over_if_told()
            if acknowledged:
                return
            await trio.sleep(self._context.retry_backoff_s())

    async def _hand_over_if_told(self) -> None:
        if not self._untold:
            await self._context.tell_election(HandedOver(self._context.stamp))

    async def _tell(self, voter: Voter) -> bool:
        """Send the request once.  Returns whether the voter is done."""
        config = self._context.config
        request = EndQuorumEpochRequest(
            cluster_id=self._context.cluster_id,
            topic=config.topic_name,
            partition=0,
            leader_id=self._context.key.id,
            leader_epoch=self._context.epoch,
            preferred_successors=tuple(successor.id for successor in self._role.preferred_successors),
            preferred_candidates=self._role.preferred_successors,
        )
        wait_ms = vote_wait_ms(config.election_timeout_ms, config.request_timeout_ms)
        try:
            response = await self._context.addresses.ask(voter, END_QUORUM_EPOCH, request, wait_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("end of epoch not delivered", voter_id=voter.id, epoch=self._context.epoch, reason=str(error))
            return False
        if response.error != ErrorCode.none:
            log.warning("end of epoch refused", voter_id=voter.id, error=response.error.name)
        elif response.leader_epoch > self._context.epoch:
            await self._context.tell_of_leader(response.leader_epoch, response.leader_id, response.leader_endpoint)
        return True
