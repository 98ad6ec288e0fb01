"""What asks the leader, on this node or another one, for the application."""

from __future__ import annotations

from collections.abc import Callable

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.actors.waiting.published import Published
from kraft_trio.errors import NodeClosedError
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.types import Endpoint


class LeaderAsker:
    """Knows who leads, and how to reach it."""

    def __init__(
        self, context: NodeContext, client: NetworkClient, view: Published[QuorumView], has_ended: Callable[[], bool]
    ) -> None:
        self._context = context
        self._client = client
        self._view = view
        self._has_ended = has_ended

    async def _until(self, what: str, condition: Callable[[QuorumView], bool]) -> QuorumView:
        """Wait for such a view.  Raises NodeClosedError, which names what was asked for."""
        view = await self._view.wait_for(lambda view: self._has_ended() or condition(view))
        if self._has_ended():
            raise NodeClosedError(f"{what}: the node has stopped")
        return view

    def _endpoint_of_leader(self, view: QuorumView) -> Endpoint | None:
        return view.leader_endpoint(self._context.config.controller_listener_name)
