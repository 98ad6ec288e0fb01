"""Finds out, on a node that is no voter, that the voter of its id is another process."""

from __future__ import annotations

import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.actors.shared_node_id import SharedNodeId
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.apis.describe_quorum import DESCRIBE_QUORUM, DescribeQuorumRequest
from kraft_trio.wire.error_codes import ErrorCode


class SharedIdWatch:
    """Asks the leader whether the voter that has this node's id, but another directory, goes on fetching.

    If it does not, it is the old incarnation of a node on a new disk.  A second node with the leader's own id cannot
    follow it; `SharedNodeId` hears of that.
    """

    def __init__(self, context: EpochContext, role: Follower) -> None:
        self._context = context
        self._role = role
        self._shared_id = SharedNodeId(context.key.id)
        self._was_alive = False

    async def until_voters_change(self) -> None:
        """Wait for another voter set, but no longer than until the next look is due."""
        log, own = self._context.log, self._context.key
        voter = log.voters.voters.get(own.id)
        if voter is None or voter.key.names(own.id, own.directory_id):
            self._was_alive = False
            await log.voters_changed.park()
            return
        # An old incarnation may have fetched just before this look, but not before the next one.
        was_alive, self._was_alive = self._was_alive, await self._is_alive(voter)
        if was_alive and self._was_alive:
            self._shared_id.is_voter(voter.key)
        with trio.move_on_after(self._context.config.fetch_timeout_ms / 1000):
            await log.voters_changed.park()

    async def _is_alive(self, voter: Voter) -> bool:
        """Whether the voter has fetched within half a fetch timeout.  False if the leader does not answer."""
        config = self._context.config
        endpoint = self._role.leader_endpoints.get(config.controller_listener_name)
        if endpoint is None:
            return False
        try:
            described = await self._context.client.request_apart(
                endpoint, DESCRIBE_QUORUM, DescribeQuorumRequest(config.topic_name), config.request_timeout_ms
            )
        except (NetworkError, UnsupportedVersionError):
            return False
        if (described.error or described.partition_error) != ErrorCode.none:
            return False
        fetched_ms = {replica.key: replica.last_fetch_timestamp_ms for replica in described.voters}
        # The leader's own entry has the current time of its clock.
        now_ms = next((at_ms for key, at_ms in fetched_ms.items() if key.id == described.leader_id), -1)
        last_ms = fetched_ms.get(voter.key, -1)
        return min(now_ms, last_ms) >= 0 and now_ms - last_ms < config.fetch_timeout_ms / 2
