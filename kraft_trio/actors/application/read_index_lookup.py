"""Asks the leader, on this node or another one, up to where a linearizable read must wait."""

from __future__ import annotations

from collections.abc import Callable

import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.context.leader_asker import LeaderAsker
from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply, deliver, drain
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.messages import QuorumView, ReadIndexRequested, Stamp
from kraft_trio.protocol.read_barrier import ReadIndex
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.read_index import READ_INDEX, ReadIndexRequest
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

MAILBOX_SIZE = 1024


class ReadIndexLookup(LeaderAsker):
    """The reads of one node's application.  Reads that begin while the leader is being asked share the next request.

    `client` is used for nothing else, because a connection serves one request at a time.
    """

    def __init__(
        self, context: NodeContext, client: NetworkClient, view: Published[QuorumView], has_ended: Callable[[], bool]
    ) -> None:
        super().__init__(context, client, view, has_ended)
        self._mailbox, self._inbox = trio.open_memory_channel[ReadIndexRequested](MAILBOX_SIZE)

    async def read_index(self) -> ReadIndex:
        """Wait for a leader that can tell it.  Raises NodeClosedError."""
        while True:
            view = await self._until("read_barrier", lambda view: view.leader_id is not None)
            reply: Reply[ReadIndex | None] = Reply()
            if await deliver(view.leader_mailbox or self._mailbox, ReadIndexRequested(reply)):
                try:
                    read_index = await reply.receive()
                except trio.Cancelled:
                    reply.abandon()
                    raise
                if read_index is not None:
                    return read_index
            await self._pause(view.stamp)

    async def run(self) -> None:
        """Ask the leader for what other nodes' leaders can tell, until cancelled."""
        waiting: list[ReadIndexRequested] = []
        try:
            while True:
                waiting = [await self._inbox.receive(), *drain(self._inbox)]
                waiting = [message for message in waiting if not message.reply.is_abandoned]
                read_index = await self._ask(self._view.value) if waiting else None
                while waiting:
                    waiting.pop().reply.answer(read_index)
        finally:
            for message in (*waiting, *drain(self._inbox)):
                message.reply.answer(None)
            self._inbox.close()

    async def _ask(self, view: QuorumView) -> ReadIndex | None:
        """Ask the leader of that view, as long as it is the leader that this node knows."""
        endpoint = self._endpoint_of_leader(view)
        if endpoint is None:
            return None
        read_index: ReadIndex | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cancel_after, view.stamp, nursery.cancel_scope)
            read_index = await self._ask_at(endpoint)
            nursery.cancel_scope.cancel()
        return read_index

    async def _ask_at(self, endpoint: Endpoint) -> ReadIndex | None:
        request = ReadIndexRequest(self._context.cluster_id)
        timeout_ms = self._context.config.request_timeout_ms
        try:
            response = await self._client.request(endpoint, READ_INDEX, request, timeout_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("no read index", reason=str(error))
            return None
        if response.error != ErrorCode.none:
            return None
        return ReadIndex(response.read_index, response.is_by_lease)

    async def _cancel_after(self, stamp: Stamp, scope: trio.CancelScope) -> None:
        await self._view.wait_for(lambda view: view.stamp != stamp)
        scope.cancel()

    async def _pause(self, stamp: Stamp) -> None:
        """Wait for another view, or for a backoff if the leader stays."""
        with trio.move_on_after(self._context.retry_backoff_s()):
            await self._view.wait_for(lambda view: self._has_ended() or view.stamp != stamp)
