"""UpdateRaftVoter: a voter tells each new leader where it listens and which kraft.versions it supports (KIP-853)."""

from __future__ import annotations

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.context.shared_node_id import SAID_EVERY_S, SharedIdWatch, SharedNodeId
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.apis.update_raft_voter import UPDATE_RAFT_VOTER, UpdateRaftVoterRequest
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

SETTLED = frozenset({ErrorCode.none, ErrorCode.unsupported_version})


class UpdateVoterSender:
    """Tells the leader of one epoch once, and again whenever the voter set says something else about this node.

    It repeats an unacknowledged request every fetch timeout.  An observer sends nothing until it is a voter.  Meanwhile
    it looks whether another process is the voter of its id.

    Two processes on copies of one directory would tell the leader their addresses in turns, a record each time.  So who
    finds its entry replaced waits first, longer each time.
    """

    def __init__(self, context: EpochContext, role: Follower) -> None:
        self._context = context
        self._role = role
        self._own = context.config.as_voter(context.key.directory_id)
        self._acknowledged = False
        self._watch = SharedIdWatch(context, role)
        self._shared_id = SharedNodeId(context.key.id)
        self._has_stood = False
        """Whether the voter set has had what this node tells since it was last told."""
        self._times_replaced = 0

    async def run(self) -> None:
        history = self._context.log.voters
        period_s = self._context.config.fetch_timeout_ms / 1000
        while True:
            while not self._is_due(history.voters.get(self._own.id), history.kraft_version):
                self._has_stood = self._has_stood or history.voters.get(self._own.id) == self._own
                await self._watch.until_voters_change()
            if self._has_stood:
                await self._replaced(history.voters.get(self._own.id), period_s)
            if await self._tell():
                self._acknowledged = True
                # The resulting record may not be in this log yet.
                with trio.move_on_after(period_s):
                    await self._context.log.voters_changed.park()
            else:
                await trio.sleep(period_s)

    def _is_due(self, known: Voter | None, kraft_version: int) -> bool:
        if known is None or not known.key.names(self._own.id, self._own.key.directory_id):
            return False
        return not self._acknowledged or (kraft_version > 0 and known != self._own)

    async def _replaced(self, now: Voter | None, period_s: float) -> None:
        """Note that the leader heard something else about this replica, and wait."""
        self._has_stood = False
        self._times_replaced += 1
        # Once, that may be a late request of an earlier process.
        if now is not None and self._times_replaced > 1:
            self._shared_id.is_copied(now.endpoints)
        await trio.sleep(min(SAID_EVERY_S, period_s * 2 ** (self._times_replaced - 1)))

    async def _tell(self) -> bool:
        """Send the request once.  Returns whether the leader has accepted it or never will."""
        config = self._context.config
        endpoint = self._role.leader_endpoints.get(config.controller_listener_name)
        if endpoint is None:
            return False
        request = UpdateRaftVoterRequest(
            cluster_id=self._context.cluster_id,
            current_leader_epoch=self._context.epoch,
            voter_id=self._own.id,
            voter_directory_id=self._own.key.directory_id,
            listeners=self._own.endpoints,
            kraft_versions=self._own.kraft_versions,
        )
        try:
            # Fetches continue while the leader tries the endpoint and waits for the commit.
            response = await self._context.client.request_apart(
                endpoint, UPDATE_RAFT_VOTER, request, config.request_timeout_ms * 2
            )
        except UnsupportedVersionError:
            return True
        except NetworkError as error:
            log.info("voter update not delivered", leader_id=self._role.leader_id, reason=str(error))
            return False
        if response.error != ErrorCode.none:
            log.info("voter update refused", leader_id=self._role.leader_id, error=response.error.name)
            if response.leader_epoch > self._context.epoch:
                await self._context.tell_of_leader(response.leader_epoch, response.leader_id, response.leader_endpoint)
        return response.error in SETTLED
