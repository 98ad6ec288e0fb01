"""AlterPartitionReassignments and ListPartitionReassignments: the quorum's partition is the only one (KIP-642)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.network.voter_change_requests import MAX_TIMEOUT_MS, timeout_error, who_leads
from kraft_trio.actors.peers.answers import Answer, Awaited, Ready
from kraft_trio.actors.peers.change_forwarding import ChangeForwarding
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply, deliver
from kraft_trio.messages import QuorumView, ReassignmentAnswer, ReassignVotersReceived
from kraft_trio.wire.apis.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignmentResult,
)
from kraft_trio.wire.apis.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
)
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode

RequestT = TypeVar("RequestT", AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest)
ResponseT = TypeVar("ResponseT")


class ReassignmentRequests:
    """A node that does not lead passes a request on if it came from a client listener.

    On a controller listener it answers NOT_CONTROLLER, after which Kafka's clients look for the leader.
    """

    def __init__(self, context: NodeContext, view: Published[QuorumView], forwarding: ChangeForwarding) -> None:
        self._config = context.config
        self._ours = (context.config.topic_name, 0)
        self._log = context.log
        self._view = view
        self._forwarding = forwarding

    async def alter(self, request: AlterPartitionReassignmentsRequest, listener_name: str) -> Answer:
        """Put the request for our partition into the coordinator's mailbox, and refuse other partitions."""
        error = timeout_error(request.timeout_ms)
        if error is not None:
            return Ready(AlterPartitionReassignmentsResponse(*error))
        if self._view.value.voter_changes is None:
            return self._elsewhere(
                ALTER_PARTITION_REASSIGNMENTS, request, AlterPartitionReassignmentsResponse, listener_name
            )
        asked = [it for it in request.partitions if (it.topic_name, it.partition) == self._ours]
        if len(asked) > 1:
            reason = f"{len(asked)} targets for {self._ours[0]}-0: expected one"
            return Ready(AlterPartitionReassignmentsResponse(ErrorCode.invalid_request, reason))
        others = tuple(
            ReassignmentResult(it.topic_name, it.partition, ErrorCode.unknown_topic_or_partition)
            for it in request.partitions
            if (it.topic_name, it.partition) != self._ours
        )
        if not asked:
            return Ready(AlterPartitionReassignmentsResponse(results=others))
        reply: Reply[ReassignmentAnswer] = Reply()
        deadline = trio.current_time() + min(request.timeout_ms, MAX_TIMEOUT_MS) / 1000
        message = ReassignVotersReceived(
            asked[0].replicas, deadline, reply, may_change_count=request.allow_replication_factor_change
        )
        if not await deliver(self._view.value.voter_changes, message):
            return self._elsewhere(
                ALTER_PARTITION_REASSIGNMENTS, request, AlterPartitionReassignmentsResponse, listener_name
            )

        def respond(answers: Sequence[ReassignmentAnswer]) -> AlterPartitionReassignmentsResponse:
            (answer,) = answers
            if answer.error == ErrorCode.not_leader_or_follower:
                return AlterPartitionReassignmentsResponse(ErrorCode.not_controller, answer.reason)
            result = ReassignmentResult(*self._ours, answer.error, answer.reason)
            return AlterPartitionReassignmentsResponse(results=(result, *others))

        return Awaited((reply,), respond)

    def list(self, request: ListPartitionReassignmentsRequest, listener_name: str) -> Answer:
        """Describe the reassignment in the leader's log, committed or not."""
        if self._view.value.voter_changes is None:
            return self._elsewhere(
                LIST_PARTITION_REASSIGNMENTS, request, ListPartitionReassignmentsResponse, listener_name
            )
        is_asked = request.partitions is None or self._ours in request.partitions
        history = self._log.voters
        if not is_asked or not history.target:
            return Ready(ListPartitionReassignmentsResponse())
        voters, target = {voter.key for voter in history.voters}, set(history.target)
        kept = {key.id for key in target}
        ongoing = OngoingReassignment(
            *self._ours,
            replicas=tuple(sorted(kept | set(history.voters.ids))),
            adding=tuple(sorted(key.id for key in target - voters)),
            removing=tuple(sorted(id for id in history.voters.ids if id not in kept)),
        )
        return Ready(ListPartitionReassignmentsResponse(reassignments=(ongoing,)))

    def _elsewhere(
        self,
        api: Api[RequestT, ResponseT],
        request: RequestT,
        respond: Callable[[ErrorCode, str], ResponseT],
        listener_name: str,
    ) -> Answer:
        """Pass the request on to the leader, or say who leads."""
        leader = self._view.value.leader_endpoint(self._config.controller_listener_name)
        if leader is None or listener_name in self._config.controller_listener_names:
            return Ready(respond(ErrorCode.not_controller, who_leads(self._view.value, listener_name)))
        wait_ms = min(max(0, request.timeout_ms), MAX_TIMEOUT_MS) + self._config.request_timeout_ms
        return self._forwarding.forward(leader, api, request, wait_ms, respond)
