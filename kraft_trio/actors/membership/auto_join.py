"""A controller that is not a voter makes itself one (KIP-853 "Controller auto joining")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.replacement import UNKNOWN, DescribedReplica, objection_to_replacing
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.add_raft_voter import ADD_RAFT_VOTER, AddRaftVoterRequest, AddRaftVoterResponse
from kraft_trio.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kraft_trio.wire.apis.describe_quorum import DESCRIBE_QUORUM, DescribeQuorumRequest, QuorumReplica
from kraft_trio.wire.apis.remove_raft_voter import REMOVE_RAFT_VOTER, RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

TIMEOUT_MS: Final = 30_000


class AutoJoin:
    """Removes this node's old incarnation from the voters, then adds this one; tries every fetch timeout.

    The old incarnation stays until this one can replace it.  The leader must say that this one has caught up and that
    the old one is silent, and this node's own listener must answer at its advertised address.  The leader checks the
    address only after the old incarnation is gone (KIP-853 "AddVoter"), too late for a quorum that needs every
    voter.

    A replica that was a voter and was removed does not join (KAFKA-19850).  It must be formatted again, or added by an
    operator.  A broker never joins, and nobody joins while the leader is reassigning the voters (KIP-642).
    """

    def __init__(self, context: EpochContext, role: Follower) -> None:
        self._context = context
        self._role = role
        self._key = context.key

    async def run(self) -> None:
        if "controller" not in self._context.config.process_roles:
            return
        history, history_changed = self._context.log.voters, self._context.log.voters_changed
        while True:
            if history.voters.is_voter(self._key) or history.kraft_version == 0:
                await history_changed.park()
            elif history.target:
                log.info("not joining by itself: the voters are being reassigned", replica=str(self._key))
                await history_changed.park()
            elif self._key in history.removed or self._context.removal.is_set:
                log.info("not joining by itself: this replica was a voter and was removed", replica=str(self._key))
                await history_changed.park()
            elif not self._context.config.witness and self._context.kafkas_controllers():
                log.warning("not joining by itself: the voters are controllers of Apache Kafka, and this is no witness")
                await history_changed.park()
            else:
                has_removed = await self._take_next_step()
                with trio.move_on_after(self._context.config.fetch_timeout_ms / 1000):
                    if has_removed and history.voters.get(self._key.id) is not None:
                        # One voter is missing, so add this one as soon as this log has the removal.
                        await history_changed.park()
                    elif not has_removed:
                        await trio.sleep_forever()

    async def _take_next_step(self) -> bool:
        """Request the next change.  Returns whether it removed the old incarnation."""
        endpoint = self._role.leader_endpoints.get(self._context.config.controller_listener_name)
        if endpoint is None:
            return False
        old = self._context.log.voters.voters.get(self._key.id)
        try:
            response: AddRaftVoterResponse | RemoveRaftVoterResponse
            if old is None:
                response = await self._add(endpoint)
            elif (objection := await self._objection(endpoint)) is not None:
                log.info("not joining yet", old=str(old.key), reason=objection)
                return False
            else:
                response = await self._remove(endpoint, old.key.directory_id)
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("joining the voters failed", reason=str(error))
            return False
        log.info(
            "joining the voters",
            step="add" if old is None else f"remove {old.key}",
            error=response.error.name,
            reason=response.error_message,
        )
        return old is not None and response.error == ErrorCode.none

    async def _objection(self, leader: Endpoint) -> str | None:
        """Why the old incarnation must not be removed yet, or None if it may.  Raises NetworkError."""
        config, ask = self._context.config, self._context.client.request_apart
        request = DescribeQuorumRequest(config.topic_name)
        described = await ask(leader, DESCRIBE_QUORUM, request, config.request_timeout_ms)
        error = described.error or described.partition_error
        if error != ErrorCode.none:
            return f"the leader does not describe the quorum: {error.name.upper()}"
        voters, observers = map(_replicas, (described.voters, described.observers))
        # The leader's own entry has the current time of its clock.
        now_ms = next((it.last_fetch_ms for it in (*voters, *observers) if it.key.id == described.leader_id), UNKNOWN)
        objection = objection_to_replacing(self._key, voters, observers, now_ms, config.fetch_timeout_ms)
        if objection is not None:
            return objection
        own = config.advertised_endpoints().get(config.controller_listener_name)
        if own is None:
            return f"no address for the listener {config.controller_listener_name}"
        try:
            answer = await ask(own, API_VERSIONS, ApiVersionsRequest(), config.request_timeout_ms)
        except (NetworkError, UnsupportedVersionError) as unreachable:
            return f"this node's own listener does not answer at {own}: {unreachable}"
        return None if answer.error == ErrorCode.none else f"{own}: {answer.error.name.upper()}"

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
        # Fetches must continue while this waits, or this node would never catch up.
        ask = self._context.client.request_apart
        try:
            return await ask(endpoint, ADD_RAFT_VOTER, request, TIMEOUT_MS + 1000)
        except UnsupportedVersionError:
            # A leader older than KIP-1186 answers when the change is committed.
            return await ask(
                endpoint, ADD_RAFT_VOTER, attrs.evolve(request, ack_when_committed=True), TIMEOUT_MS + 1000
            )

    async def _remove(self, endpoint: Endpoint, directory_id: UUID) -> RemoveRaftVoterResponse:
        request = RemoveRaftVoterRequest(self._context.cluster_id, self._key.id, directory_id)
        return await self._context.client.request_apart(endpoint, REMOVE_RAFT_VOTER, request, TIMEOUT_MS)


def _replicas(described: Iterable[QuorumReplica]) -> list[DescribedReplica]:
    return [
        DescribedReplica(replica.key, replica.last_fetch_timestamp_ms, replica.last_caught_up_timestamp_ms)
        for replica in described
    ]
