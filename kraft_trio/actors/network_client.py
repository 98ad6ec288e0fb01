"""Requests to peers: one connection an endpoint, one request in flight on it, timeouts, backoff, ApiVersions."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import attrs
import structlog
import trio

from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.messages import Reply, send_or_wait
from kraft_trio.protocol.types import Endpoint
from kraft_trio.protocol.waits import RECONNECT_BACKOFF_MAX_MS
from kraft_trio.wire.api import Api
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.network import Network

log = structlog.get_logger(__name__)

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

RECONNECT_BACKOFF_MIN_S = 0.05
MAILBOX_SIZE = 64

BROKEN = (NetworkError, ProtocolError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""What can come of an exchange with a peer that is gone, or that does not speak as it should."""


@attrs.frozen
class Outgoing:
    """One request on its way: `scope` bounds it in time and ends it when its caller gives up."""

    api: Api[Any, Any]
    request: Any
    scope: trio.CancelScope
    reply: Reply[Any]


@attrs.frozen
class Lease:
    """A wish for the connection itself, for as long as `ended` is not set; `scope` bounds the wait for it."""

    scope: trio.CancelScope
    reply: Reply[Connection | NetworkError]
    ended: trio.Event


class NetworkClient:
    """Owns the connections to the peers.

    `request` may be called from any task.  `run` must be running; when it is cancelled, the connections are closed and
    the callers that still wait get NetworkError.
    """

    def __init__(
        self,
        network: Network,
        client_id: str,
        random_source: random.Random,
        max_response_bytes: int,
        reconnect_backoff_max_ms: int = RECONNECT_BACKOFF_MAX_MS,
    ) -> None:
        self._backoff_max_s = reconnect_backoff_max_ms / 1000
        self._network = network
        self._client_id = client_id
        self._random = random_source
        self._max_response_bytes = max_response_bytes
        self._peers: dict[Endpoint, trio.MemorySendChannel[Outgoing | Lease]] = {}
        self._left: set[Endpoint] = set()
        """Where nobody is any more who is to be asked again: a connection there lasts for as long as it is used."""
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve requests until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                # From here on the nursery may close at any moment, and then refuses new peers.
                self._nursery = None

    async def request(
        self, endpoint: Endpoint, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int
    ) -> ResponseT:
        """Send one request and wait for its answer, `timeout_ms` at most, connecting first where needed.

        Raises NetworkError when no answer came (refused, cut, timed out, not understood: it may have taken effect all
        the same) and UnsupportedVersionError when the peer knows no version that can carry it.  When cancelled, the
        connection is closed if the request was already on it.
        """
        outgoing = Outgoing(api, request, trio.CancelScope(), Reply())
        outgoing.scope.deadline = trio.current_time() + timeout_ms / 1000
        try:
            await send_or_wait(self._peer(endpoint), outgoing)
            outcome = await outgoing.reply.receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise NetworkError(f"{endpoint}: {api.name}: the network client has stopped") from None
        except trio.Cancelled:
            outgoing.scope.cancel()
            raise
        finally:
            self._close_if_left(endpoint)
        if isinstance(outcome, Exception):
            raise outcome
        return cast(ResponseT, outcome)

    @asynccontextmanager
    async def lease(self, endpoint: Endpoint, timeout_ms: int) -> AsyncIterator[Connection]:
        """The connection to that endpoint for one task alone, which then exchanges without the client's help.

        Other requests to the endpoint wait until the block is left; the connection stays the client's, who closes it.
        Raises NetworkError when there is no connection within `timeout_ms`.
        """
        lease = Lease(trio.CancelScope(deadline=trio.current_time() + timeout_ms / 1000), Reply(), trio.Event())
        try:
            try:
                await send_or_wait(self._peer(endpoint), lease)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise NetworkError(f"{endpoint}: the network client has stopped") from None
            connection = await lease.reply.receive()
            if isinstance(connection, NetworkError):
                raise connection
            yield connection
        finally:
            lease.scope.cancel()
            lease.ended.set()
            self._close_if_left(endpoint)

    async def request_apart(
        self, endpoint: Endpoint, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int
    ) -> ResponseT:
        """Send one request over a connection of its own, which is closed afterwards; nobody waits for it.

        For what takes long, or goes to somebody who may never be asked again.  Raises what `request` raises.
        """
        with trio.move_on_after(timeout_ms / 1000):
            connection: Connection | None = None
            try:
                stream = await self._network.connect(endpoint)
                connection = await Connection.negotiated(stream, self._client_id, self._max_response_bytes)
                return await connection.request(api, request)
            except BROKEN as error:
                raise NetworkError(f"{api.name} to {endpoint}: {error}") from error
            finally:
                if connection is not None:
                    await _close(connection)
        raise NetworkError(f"{api.name} to {endpoint}: no answer in time")

    def forget(self, endpoint: Endpoint) -> None:
        """Close the connection to a peer that is none any more, once what is under way there has ended.

        Whatever goes there afterwards, as to a leader that has left the voters and still leads, has a connection for as
        long as it takes.
        """
        self._left.add(endpoint)
        self._close(endpoint)

    def expect(self, endpoint: Endpoint) -> None:
        """A peer is there (again): keep the connection to it."""
        self._left.discard(endpoint)

    def _close_if_left(self, endpoint: Endpoint) -> None:
        if endpoint in self._left:
            self._close(endpoint)

    def _close(self, endpoint: Endpoint) -> None:
        mailbox = self._peers.pop(endpoint, None)
        if mailbox is not None:
            mailbox.close()

    def _peer(self, endpoint: Endpoint) -> trio.MemorySendChannel[Outgoing | Lease]:
        mailbox = self._peers.get(endpoint)
        if mailbox is None:
            if self._nursery is None:
                raise NetworkError(f"{endpoint}: the network client is not running")
            mailbox, receive = trio.open_memory_channel[Outgoing | Lease](MAILBOX_SIZE)
            self._peers[endpoint] = mailbox
            peer = _Peer(
                self._network, endpoint, self._client_id, self._random, self._max_response_bytes, self._backoff_max_s
            )
            self._nursery.start_soon(peer.run, receive, name=f"peer {endpoint}")
        return mailbox


class _Peer:
    """The one connection to one endpoint: opened on demand, closed on any error or given-up request."""

    def __init__(
        self,
        network: Network,
        endpoint: Endpoint,
        client_id: str,
        random_source: random.Random,
        max_bytes: int,
        backoff_max_s: float,
    ) -> None:
        self._backoff_max_s = backoff_max_s
        self._network = network
        self._endpoint = endpoint
        self._client_id = client_id
        self._random = random_source
        self._max_bytes = max_bytes
        self._connection: Connection | None = None
        self._failures = 0
        self._retry_at = -float("inf")

    async def run(self, mailbox: trio.MemoryReceiveChannel[Outgoing | Lease]) -> None:
        with mailbox:
            try:
                async for wish in mailbox:
                    if isinstance(wish, Lease):
                        await self._lend(wish)
                    else:
                        await self._serve(wish)
            finally:
                await self._disconnect()

    async def _serve(self, outgoing: Outgoing) -> None:
        outcome: object = None
        if outgoing.scope.cancel_called or outgoing.scope.deadline <= trio.current_time():
            # Its time went by in the queue: nothing has been sent, and the connection is none the worse.
            outgoing.reply.answer(NetworkError(f"{outgoing.api.name} to {self._endpoint}: not sent in time"))
            return
        try:
            with outgoing.scope:
                outcome = await self._exchange(outgoing)
            if outcome is None:
                outcome = NetworkError(f"{outgoing.api.name} to {self._endpoint}: no answer in time")
        except BROKEN as error:
            outcome = NetworkError(f"{outgoing.api.name} to {self._endpoint}: {error}")
        except UnsupportedVersionError as error:
            outgoing.reply.answer(error)
            return
        except trio.Cancelled:
            outgoing.reply.answer(
                NetworkError(f"{self._endpoint}: {outgoing.api.name}: the network client has stopped")
            )
            raise
        if isinstance(outcome, NetworkError):
            await self._disconnect()
        outgoing.reply.answer(outcome)

    async def _exchange(self, outgoing: Outgoing) -> object:
        """Ask over the connection at hand; once more over a new one if the peer has closed that meanwhile.

        Every request of a node's may be sent twice: votes and epochs are idempotent, appends have sequence numbers.
        """
        if self._connection is not None:
            try:
                return await self._connection.request(outgoing.api, outgoing.request)
            except NetworkError:
                await self._disconnect()
        connection = await self._connected()
        return await connection.request(outgoing.api, outgoing.request)

    async def _lend(self, lease: Lease) -> None:
        connection: Connection | None = None
        reason = "no connection in time"
        try:
            with lease.scope:
                connection = await self._connected()
        except (*BROKEN, UnsupportedVersionError) as error:
            reason = str(error)
        if connection is None:
            await self._disconnect()
            lease.reply.answer(NetworkError(f"{self._endpoint}: {reason}"))
            return
        lease.reply.answer(connection)
        await lease.ended.wait()
        if not connection.usable:
            await self._disconnect()

    async def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        await trio.sleep_until(self._retry_at)
        backoff = min(self._backoff_max_s, RECONNECT_BACKOFF_MIN_S * 2**self._failures)
        self._retry_at = trio.current_time() + backoff * self._random.uniform(0.8, 1.2)
        self._failures = min(self._failures + 1, 16)
        stream = await self._network.connect(self._endpoint)
        connection = await Connection.negotiated(stream, self._client_id, self._max_bytes)
        self._connection = connection
        self._failures = 0
        return connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await _close(connection)


async def _close(connection: Connection) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 0.1):
        await connection.aclose()
