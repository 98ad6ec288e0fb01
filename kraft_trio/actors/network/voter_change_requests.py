"""Checks on voter-change requests before they reach the coordinator (docs/reference/kafka.md#order-of-checks)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import attrs
import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.network.leader_requests import leader_check
from kraft_trio.actors.peers.answers import Answer, Awaited, Ready
from kraft_trio.actors.peers.change_forwarding import ChangeForwarding
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply, deliver
from kraft_trio.messages import (
    AddVoterReceived,
    QuorumView,
    RemoveVoterReceived,
    TransferLeadershipReceived,
    UpdateFeaturesReceived,
    UpdateVoterReceived,
    VoterChangeMessage,
)
from kraft_trio.wire.api import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, TRANSFER_LEADERSHIP, UPDATE_FEATURES, Api
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipRequest, TransferLeadershipResponse
from kraft_trio.wire.apis.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft_trio.wire.error_codes import ErrorCode

T = TypeVar("T")
RequestT = TypeVar("RequestT")

VoterChangeRequest = (
    AddRaftVoterRequest
    | RemoveRaftVoterRequest
    | UpdateRaftVoterRequest
    | UpdateFeaturesRequest
    | TransferLeadershipRequest
)

REMOVE_TIMEOUT_MS: Final = 10_000
"""The deadline of RemoveRaftVoter, which has no field for it."""

FORWARDER_CLIENT_ID: Final = "kraft-forwarder"
"""Marks a request that a node has passed on, so that it is not passed on again."""
REPLICA_CLIENT_ID: Final = "raft-client-"
"""How the client ids of replicas begin, Kafka's too."""

MAX_TIMEOUT_MS: Final = 600_000
"""The longest deadline that a request can set."""


def _nowhere() -> None:
    """Pass nothing on."""


def _finds_the_leader(client_id: str | None) -> bool:
    """Whether a client asks the leader itself: a replica, or a node that passes a request on."""
    return client_id is not None and client_id.startswith((FORWARDER_CLIENT_ID, REPLICA_CLIENT_ID))


class VoterChangeRequests:
    """Routes AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter, UpdateFeatures and TransferLeadership.

    A node that does not lead passes the request on, except UpdateRaftVoter, which only replicas send.  On a controller
    listener it passes on only what adds or removes a voter, because a tool with --bootstrap-server may ask any node
    that Metadata names.  It names the leader to replicas and to nodes that pass on.
    """

    def __init__(self, context: NodeContext, view: Published[QuorumView], forwarding: ChangeForwarding) -> None:
        self._config = context.config
        self._cluster_id = context.cluster_id
        self._view = view
        self._forwarding = forwarding

    async def route(self, request: VoterChangeRequest, listener_name: str, client_id: str | None = None) -> Answer:
        """Put the request into the coordinator's mailbox, waiting while that is full."""
        is_passed_on = listener_name not in self._config.controller_listener_names or (
            isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest) and not _finds_the_leader(client_id)
        )
        match request:
            case AddRaftVoterRequest():
                error = self._cluster_error(request.cluster_id) or timeout_error(request.timeout_ms)
                forwarded = self._forwarded(ADD_RAFT_VOTER, request, request.timeout_ms, AddRaftVoterResponse)
                return await self._deliver(
                    lambda reply: AddVoterReceived(request, self._deadline(request.timeout_ms), reply),
                    AddRaftVoterResponse,
                    listener_name,
                    error,
                    forwarded if is_passed_on else _nowhere,
                )
            case RemoveRaftVoterRequest():
                forwarded = self._forwarded(REMOVE_RAFT_VOTER, request, REMOVE_TIMEOUT_MS, RemoveRaftVoterResponse)
                return await self._deliver(
                    lambda reply: RemoveVoterReceived(request, self._deadline(REMOVE_TIMEOUT_MS), reply),
                    RemoveRaftVoterResponse,
                    listener_name,
                    self._cluster_error(request.cluster_id),
                    forwarded if is_passed_on else _nowhere,
                )
            case UpdateFeaturesRequest():
                forwarded = self._forwarded(UPDATE_FEATURES, request, request.timeout_ms, UpdateFeaturesResponse)
                return await self._deliver(
                    lambda reply: UpdateFeaturesReceived(request, self._deadline(request.timeout_ms), reply),
                    UpdateFeaturesResponse,
                    listener_name,
                    timeout_error(request.timeout_ms),
                    forwarded if is_passed_on else _nowhere,
                )
            case TransferLeadershipRequest():
                error = self._cluster_error(request.cluster_id) or timeout_error(request.timeout_ms)
                forwarded = self._forwarded(
                    TRANSFER_LEADERSHIP, request, request.timeout_ms, TransferLeadershipResponse
                )
                return await self._deliver(
                    lambda reply: TransferLeadershipReceived(
                        request.voter_id, self._deadline(request.timeout_ms), reply
                    ),
                    TransferLeadershipResponse,
                    listener_name,
                    error,
                    forwarded if is_passed_on else _nowhere,
                )
            case UpdateRaftVoterRequest():
                error = self._cluster_error(request.cluster_id or "")  # a voter names it
                code = leader_check(self._view.value, request.current_leader_epoch)
                return await self._deliver(
                    lambda reply: UpdateVoterReceived(request, self._deadline(self._config.request_timeout_ms), reply),
                    lambda code, _reason: self._update_response(code, request.voter_id, listener_name),
                    listener_name,
                    error or (None if code is None else (code, "")),
                )

    async def _deliver(
        self,
        message: Callable[[Reply[T]], VoterChangeMessage],
        respond: Callable[[ErrorCode, str], T],
        listener_name: str,
        error: tuple[ErrorCode, str] | None,
        forwarded: Callable[[], Answer | None] = _nowhere,
    ) -> Answer:
        if error is not None:
            return Ready(respond(*error))
        reply: Reply[T] = Reply()
        if await deliver(self._view.value.voter_changes, message(reply)):
            return Awaited((reply,), _told_to_look_again)
        if (answer := forwarded()) is not None:
            return answer
        reason = who_leads(self._view.value, listener_name)
        return Ready(_told_to_look_again((respond(ErrorCode.not_leader_or_follower, reason),)))

    def _forwarded(
        self,
        api: Api[RequestT, T],
        request: RequestT,
        timeout_ms: int,
        respond: Callable[[ErrorCode, str], T],
    ) -> Callable[[], Answer | None]:
        """A function that passes the request on.  It returns None if this node does not know where the leader is."""

        def forward() -> Answer | None:
            leader = self._view.value.leader_endpoint(self._config.controller_listener_name)
            if leader is None:
                return None
            wait_ms = min(timeout_ms, MAX_TIMEOUT_MS) + self._config.request_timeout_ms
            return self._forwarding.forward(leader, api, request, wait_ms, respond)

        return forward

    def _deadline(self, timeout_ms: int) -> float:
        return trio.current_time() + min(timeout_ms, MAX_TIMEOUT_MS) / 1000

    def _cluster_error(self, cluster_id: str | None) -> tuple[ErrorCode, str] | None:
        if cluster_id is None or cluster_id == self._cluster_id:
            return None
        return ErrorCode.inconsistent_cluster_id, f"cluster id {cluster_id}: this node is of cluster {self._cluster_id}"

    def _update_response(self, error: ErrorCode, voter_id: int, listener_name: str) -> UpdateRaftVoterResponse:
        view = self._view.value
        leader_id, leader_endpoint = view.named_leader(voter_id, listener_name)
        return UpdateRaftVoterResponse(error, leader_id, view.epoch, leader_endpoint)


def timeout_error(timeout_ms: int) -> tuple[ErrorCode, str] | None:
    """The error for a deadline that a request sets."""
    if timeout_ms > 0:
        return None
    return ErrorCode.invalid_request, f"timeout {timeout_ms} ms: expected more than 0"


def who_leads(view: QuorumView, listener_name: str) -> str:
    """Tell an administrator which node to ask."""
    endpoint = view.leader_endpoint_near(listener_name)
    if view.leader_id is None:
        return f"this node knows no leader of epoch {view.epoch}"
    return f"node {view.leader_id} leads epoch {view.epoch}" + (f", at {endpoint}" if endpoint else "")


def _told_to_look_again(responses: Sequence[T]) -> T:
    """The only response.  Kafka's admin client repeats UpdateFeatures only after NOT_CONTROLLER."""
    response = responses[0]
    if isinstance(response, UpdateFeaturesResponse) and response.error == ErrorCode.not_leader_or_follower:
        return attrs.evolve(response, error=ErrorCode.not_controller)
    return response
