"""A controller that is no voter makes itself one (KIP-853 "Controller auto joining")."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs
import structlog
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.add_raft_voter import ADD_RAFT_VOTER, AddRaftVoterRequest, AddRaftVoterResponse
from kraft_trio.wire.apis.remove_raft_voter import REMOVE_RAFT_VOTER, RemoveRaftVoterRequest, RemoveRaftVoterResponse

log = structlog.get_logger(__name__)

TIMEOUT_MS: Final = 30_000


class AutoJoin:
    """Removes this node's old incarnation from the voters, then adds this one; every fetch timeout until it is in.

    Not where the log says that this very incarnation was a voter and was removed: somebody wanted that (KAFKA-19850).
    It joins again once it is formatted anew, or added by hand.  A broker never joins: it is an observer for good.
    """

    def __init__(self, context: EpochContext, role: Follower) -> None:
        self._context = context
        self._role = role
        self._key = context.key

    async def run(self) -> None:
        if "controller" not in self._context.config.process_roles:
            return
        history = self._context.log.voters
        while True:
            if history.voters.is_voter(self._key) or history.kraft_version == 0:
                await self._context.log.voters_changed.park()
            elif history.has_named(self._key):
                log.info("not joining by itself: this replica was a voter and was removed", replica=str(self._key))
                await self._context.log.voters_changed.park()
            else:
                await self._take_next_step()
                await trio.sleep(self._context.config.fetch_timeout_ms / 1000)

    async def _take_next_step(self) -> None:
        endpoint = self._role.leader_endpoints.get(self._context.config.controller_listener_name)
        if endpoint is None:
            return
        old = self._context.log.voters.voters.get(self._key.id)
        try:
            response: AddRaftVoterResponse | RemoveRaftVoterResponse
            if old is None:
                response = await self._add(endpoint)
            else:
                response = await self._remove(endpoint, old.key.directory_id)
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("joining the voters failed", reason=str(error))
            return
        log.info(
            "joining the voters",
            step="add" if old is None else f"remove {old.key}",
            error=response.error.name,
            reason=response.error_message,
        )

    async def _add(self, endpoint: Endpoint) -> AddRaftVoterResponse:
        own = self._context.config.as_voter(self._key.directory_id)
        request = AddRaftVoterRequest(
            cluster_id=self._context.cluster_id,
            timeout_ms=TIMEOUT_MS,
            voter_id=own.id,
            voter_directory_id=own.key.directory_id,
            listeners=own.endpoints,
            ack_when_committed=False,
        )
        # Both wait for the leader's answer beside the Fetches, without which this node would never catch up.
        ask = self._context.client.request_apart
        try:
            return await ask(endpoint, ADD_RAFT_VOTER, request, TIMEOUT_MS + 1000)
        except UnsupportedVersionError:
            # A leader older than KIP-1186 answers when the change has committed.
            return await ask(
                endpoint, ADD_RAFT_VOTER, attrs.evolve(request, ack_when_committed=True), TIMEOUT_MS + 1000
            )

    async def _remove(self, endpoint: Endpoint, directory_id: UUID) -> RemoveRaftVoterResponse:
        request = RemoveRaftVoterRequest(self._context.cluster_id, self._key.id, directory_id)
        return await self._context.client.request_apart(endpoint, REMOVE_RAFT_VOTER, request, TIMEOUT_MS)
