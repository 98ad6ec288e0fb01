"""The answers to Vote, BeginQuorumEpoch and EndQuorumEpoch: all of them say which leader this node knows."""

from __future__ import annotations

from kraft_trio.actors.fetch_requests import leader_endpoint
from kraft_trio.actors.published import Published
from kraft_trio.config import NodeConfig
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochResponse
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochResponse
from kraft_trio.wire.apis.vote import VoteResponse
from kraft_trio.wire.error_codes import ErrorCode


class ElectionResponses:
    """Makes them from the role that has been reached, so after that is published; `error` is the partition's."""

    def __init__(self, config: NodeConfig, view: Published[QuorumView]) -> None:
        self._config = config
        self._view = view

    def vote(self, error: ErrorCode, listener_name: str | None, *, granted: bool) -> VoteResponse:
        return VoteResponse(
            error=ErrorCode.none,
            partition_error=error,
            leader_id=self._leader_id(),
            leader_epoch=self._view.value.epoch,
            vote_granted=granted,
            leader_endpoint=self._leader_endpoint(listener_name),
            topic=self._config.topic_name,
        )

    def begin_quorum_epoch(self, error: ErrorCode, listener_name: str | None) -> BeginQuorumEpochResponse:
        return BeginQuorumEpochResponse(
            error=ErrorCode.none,
            partition_error=error,
            leader_id=self._leader_id(),
            leader_epoch=self._view.value.epoch,
            leader_endpoint=self._leader_endpoint(listener_name),
            topic=self._config.topic_name,
        )

    def end_quorum_epoch(self, error: ErrorCode, listener_name: str | None) -> EndQuorumEpochResponse:
        return EndQuorumEpochResponse(
            error=ErrorCode.none,
            partition_error=error,
            leader_id=self._leader_id(),
            leader_epoch=self._view.value.epoch,
            leader_endpoint=self._leader_endpoint(listener_name),
            topic=self._config.topic_name,
        )

    def _leader_id(self) -> int:
        leader_id = self._view.value.leader_id
        return -1 if leader_id is None else leader_id

    def _leader_endpoint(self, listener_name: str | None) -> Endpoint | None:
        """Where the leader is on the listener that was asked, else on its default one."""
        return leader_endpoint(self._view.value, listener_name or self._config.controller_listener_name)
