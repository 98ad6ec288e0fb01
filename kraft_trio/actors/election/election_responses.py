"""Answers Vote, BeginQuorumEpoch and EndQuorumEpoch for Election."""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from kraft_trio.actors.context.request_failures import RequestFailures
from kraft_trio.actors.election.epoch_guard import EpochGuard
from kraft_trio.actors.election.role_changes import Ruling
from kraft_trio.actors.waiting.published import Published
from kraft_trio.config import NodeConfig
from kraft_trio.logs import get_logger
from kraft_trio.messages import (
    BeginQuorumEpochReceived,
    ElectionMessage,
    EndQuorumEpochReceived,
    QuorumView,
    VoteReceived,
)
from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.types import Endpoint
from kraft_trio.protocol.votes import VoteDecision
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochResponse
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochResponse
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from kraft_trio.wire.error_codes import REFUSALS, ErrorCode

log = get_logger(__name__)

ElectionRequest: TypeAlias = VoteReceived | BeginQuorumEpochReceived | EndQuorumEpochReceived


class _Common(TypedDict):
    error: ErrorCode
    partition_error: ErrorCode
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None
    topic: str


class ElectionResponses:
    """Sends rulings, with the leader that this node knows.

    Election owns it, and calls it after it has published the role that the request led to.
    """

    def __init__(
        self, config: NodeConfig, view: Published[QuorumView], guard: EpochGuard, failures: RequestFailures
    ) -> None:
        self._config = config
        self._view = view
        self._guard = guard
        self._failures = failures

    def answer(self, message: ElectionRequest, ruling: Ruling | None) -> None:
        """Answer a request as ruled, and log votes and refused epochs."""
        assert ruling is not None, "a request always gets a ruling"
        common = self._common(ruling.error, message)
        match message:
            case VoteReceived(request=request, reply=vote):
                assert ruling.vote is not None, "a Vote is decided"
                if ruling.is_too_far_ahead:
                    self._guard.refused("Vote", str(request.replica), request.replica_epoch, self._epoch)
                _log_vote(request, ruling.vote)
                vote.answer(VoteResponse(vote_granted=ruling.vote.granted, **common))
            case BeginQuorumEpochReceived(request=begun, reply=begin):
                if ruling.is_too_far_ahead:
                    self._guard.refused("BeginQuorumEpoch", str(begun.leader_id), begun.leader_epoch, self._epoch)
                if ruling.is_strange:
                    self._guard.refused_address(begun.leader_id, begun.leader_epoch, begun.leader_endpoints)
                begin.answer(BeginQuorumEpochResponse(**common))
            case EndQuorumEpochReceived(request=ended, reply=end):
                if ruling.is_too_far_ahead:
                    self._guard.refused("EndQuorumEpoch", str(ended.leader_id), ended.leader_epoch, self._epoch)
                if ruling.is_strange:
                    self._guard.refused_address(ended.leader_id, ended.leader_epoch, ended.leader_endpoints)
                end.answer(EndQuorumEpochResponse(**common))

    def fail(self, message: ElectionMessage, error: Exception) -> None:
        """Answer a request that met a bug before it changed anything.  Raises `error` for other messages."""
        match message:
            case VoteReceived(reply=vote):
                self._failures.note(error, "Vote")
                vote.answer(VoteResponse(ErrorCode.unknown_server_error))
            case BeginQuorumEpochReceived(reply=begin):
                self._failures.note(error, "BeginQuorumEpoch")
                begin.answer(BeginQuorumEpochResponse(ErrorCode.unknown_server_error))
            case EndQuorumEpochReceived(reply=end):
                self._failures.note(error, "EndQuorumEpoch")
                end.answer(EndQuorumEpochResponse(ErrorCode.unknown_server_error))
            case _:
                raise error

    @property
    def _epoch(self) -> int:
        return self._view.value.epoch

    def _common(self, error: Refusal | None, message: ElectionRequest) -> _Common:
        view = self._view.value
        listener_name = message.listener_name or self._config.controller_listener_name
        leader_id, leader_endpoint = view.named_leader(_asker_id(message), listener_name)
        return _Common(
            error=ErrorCode.none,
            partition_error=ErrorCode.none if error is None else REFUSALS[error],
            leader_id=leader_id,
            leader_epoch=view.epoch,
            leader_endpoint=leader_endpoint,
            topic=self._config.topic_name,
        )


def _asker_id(message: ElectionRequest) -> int:
    match message:
        case VoteReceived(request=request):
            return request.replica.id
        case BeginQuorumEpochReceived() | EndQuorumEpochReceived():
            return message.request.leader_id


def _log_vote(request: VoteRequest, decision: VoteDecision) -> None:
    log.info(
        "vote requested",
        candidate=str(request.replica),
        epoch=request.replica_epoch,
        pre_vote=request.pre_vote,
        granted=decision.granted,
        reason=decision.reason,
    )
