"""Sends requests to peers: one connection per endpoint, one request at a time on it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import attrs
import trio
from outcome import Error, Outcome, Value

from kraft_trio.channels import Reply, send_or_wait
from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import Endpoint
from kraft_trio.protocol.waits import RECONNECT_BACKOFF_MAX_MS
from kraft_trio.wire.api import Api
from kraft_trio.wire.apis.api_versions import ApiVersionsResponse
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.network import Network

log = get_logger(__name__)

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

RECONNECT_BACKOFF_MIN_S = 0.05
MAILBOX_SIZE = 64

BROKEN = (NetworkError, ProtocolError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""Errors of an exchange with a peer that is gone or breaks the protocol."""


@attrs.frozen
class Outgoing:
    """A request under way.  `scope` has its deadline, and is cancelled when the caller gives up."""

    api: Api[Any, Any]
    request: Any
    scope: trio.CancelScope
    reply: Reply[Outcome[Any]]


@attrs.frozen
class Lease:
    """A request to borrow the connection until `ended` is set.  `scope` bounds the wait for it."""

    scope: trio.CancelScope
    reply: Reply[Outcome[Connection]]
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
        on_negotiated: Callable[[Endpoint, ApiVersionsResponse], object] = lambda _endpoint, _versions: None,
        shown: Callable[[], object] = lambda: None,
    ) -> None:
        """`on_negotiated` is called with the answer to ApiVersions of each new connection.

        `shown` returns what a new connection shows of this node.  Once that is another object, older connections are
        not used any more: peers that refused the old one may not refuse the new one.
        """
        self._on_negotiated = on_negotiated
        self._shown = shown
        self._backoff_max_s = reconnect_backoff_max_ms / 1000
        self._network = network
        self._client_id = client_id
        self._random = random_source
        self._max_response_bytes = max_response_bytes
        self._peers: dict[Endpoint, trio.MemorySendChannel[Outgoing | Lease]] = {}
        self._left: set[Endpoint] = set()
        """Endpoints that left the voter set; their connections close after use."""
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve requests until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                # From here on the nursery may close at any moment, and would then refuse new peers.
                self._nursery = None

    async def request(
        self, endpoint: Endpoint, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int
    ) -> ResponseT:
        """Send one request and wait up to `timeout_ms` for the response.  Connects first if needed.

        Raises NetworkError if no valid response came; the request may have taken effect.  Raises
        UnsupportedVersionError if the peer supports no version that can carry the request.  If the call is cancelled
        after the request was sent, the connection closes.
        """
        outgoing = Outgoing(api, request, trio.CancelScope(), Reply())
        outgoing.scope.deadline = trio.current_time() + timeout_ms / 1000
        try:
            await send_or_wait(self._peer(endpoint), outgoing)
            answer = await outgoing.reply.receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise NetworkError(f"{endpoint}: {api.name}: the network client has stopped") from None
        except trio.Cancelled:
            outgoing.scope.cancel()
            raise
        finally:
            self._close_if_left(endpoint)
        return cast(ResponseT, answer.unwrap())

    @asynccontextmanager
    async def lease(self, endpoint: Endpoint, timeout_ms: int) -> AsyncIterator[Connection]:
        """Borrow the connection to an endpoint; the caller alone uses it until the block ends.

        Other requests to the endpoint wait meanwhile.  The client keeps the connection and closes it.  Raises
        NetworkError if there is no connection within `timeout_ms`.
        """
        lease = Lease(trio.CancelScope(deadline=trio.current_time() + timeout_ms / 1000), Reply(), trio.Event())
        try:
            try:
                await send_or_wait(self._peer(endpoint), lease)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise NetworkError(f"{endpoint}: the network client has stopped") from None
            yield (await lease.reply.receive()).unwrap()
        finally:
            lease.scope.cancel()
            lease.ended.set()
            self._close_if_left(endpoint)

    async def request_apart(
        self,
        endpoint: Endpoint,
        api: Api[RequestT, ResponseT],
        request: RequestT,
        timeout_ms: int,
        refusal: Callable[[bytes | None], str | None] = lambda _certificate: None,
    ) -> ResponseT:
        """Send one request over a new connection, and close it afterwards.  Other requests need not wait for it.

        Use it for requests that take long, or to a peer that may never be asked again.  `refusal` says why nothing may
        be sent to the peer with that certificate, or None.  Raises what `request` raises.
        """
        with trio.move_on_after(timeout_ms / 1000):
            connection: Connection | None = None
            try:
                stream = await self._network.connect(endpoint)
                if (reason := refusal(stream.peer_certificate())) is not None:
                    await trio.aclose_forcefully(stream)
                    raise NetworkError(reason)
                connection = await Connection.negotiated(stream, self._client_id, self._max_response_bytes)
                self._on_negotiated(endpoint, connection.api_versions)
                return await connection.request(api, request)
            except BROKEN as error:
                raise NetworkError(f"{api.name} to {endpoint}: {error}") from error
            finally:
                if connection is not None:
                    await _close(connection)
        raise NetworkError(f"{api.name} to {endpoint}: no answer in time")

    def forget(self, endpoint: Endpoint) -> None:
        """Close the connection to a former peer once its current request has ended.

        A later request there, for example to a leader that has left the voters, gets a connection that closes after it.
        """
        self._left.add(endpoint)
        self._close(endpoint)

    def expect(self, endpoint: Endpoint) -> None:
        """Keep the connection to an endpoint after use, because a peer is there."""
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
                self._network,
                endpoint,
                self._client_id,
                self._random,
                self._max_response_bytes,
                self._backoff_max_s,
                self._on_negotiated,
                self._shown,
            )
            self._nursery.start_soon(peer.run, receive, name=f"peer {endpoint}")
        return mailbox


class _Peer:
    """The connection to one endpoint.  It opens on demand, and closes on any error and on a cancelled request."""

    def __init__(
        self,
        network: Network,
        endpoint: Endpoint,
        client_id: str,
        random_source: random.Random,
        max_bytes: int,
        backoff_max_s: float,
        on_negotiated: Callable[[Endpoint, ApiVersionsResponse], object],
        shown: Callable[[], object],
    ) -> None:
        self._on_negotiated = on_negotiated
        self._shown = shown
        self._shown_before: object = None
        """What the connection has shown."""
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
        answer: Outcome[Any] | None = None
        what = f"{outgoing.api.name} to {self._endpoint}"
        if outgoing.scope.cancel_called or outgoing.scope.deadline <= trio.current_time():
            # It timed out in the queue.  Nothing was sent, so the connection stays open.
            outgoing.reply.answer(Error(NetworkError(f"{what}: not sent in time")))
            return
        try:
            with outgoing.scope:
                answer = Value(await self._exchange(outgoing))
            if answer is None:
                answer = Error(NetworkError(f"{what}: no answer in time"))
        except BROKEN as error:
            answer = Error(NetworkError(f"{what}: {error}"))
        except UnsupportedVersionError as error:
            outgoing.reply.answer(Error(error))
            return
        except trio.Cancelled:
            outgoing.reply.answer(
                Error(NetworkError(f"{self._endpoint}: {outgoing.api.name}: the network client has stopped"))
            )
            raise
        if isinstance(answer, Error):
            await self._disconnect()
        outgoing.reply.answer(answer)

    async def _exchange(self, outgoing: Outgoing) -> object:
        """Send the request; if the peer has closed an idle connection, send it once more over a new one.

        All requests of a node may be sent twice: votes and epochs are idempotent, and appends have sequence numbers.
        """
        await self._disconnect_if_outdated()
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
            lease.reply.answer(Error(NetworkError(f"{self._endpoint}: {reason}")))
            return
        lease.reply.answer(Value(connection))
        await lease.ended.wait()
        if not connection.usable:
            await self._disconnect()

    async def _connected(self) -> Connection:
        await self._disconnect_if_outdated()
        if self._connection is not None:
            return self._connection
        await trio.sleep_until(self._retry_at)
        backoff = min(self._backoff_max_s, RECONNECT_BACKOFF_MIN_S * 2**self._failures)
        self._retry_at = trio.current_time() + backoff * self._random.uniform(0.8, 1.2)
        self._failures = min(self._failures + 1, 16)
        shown = self._shown()
        stream = await self._network.connect(self._endpoint)
        connection = await Connection.negotiated(stream, self._client_id, self._max_bytes)
        self._connection, self._shown_before = connection, shown
        self._failures = 0
        self._on_negotiated(self._endpoint, connection.api_versions)
        return connection

    async def _disconnect_if_outdated(self) -> None:
        if self._connection is not None and self._shown_before is not self._shown():
            await self._disconnect()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await _close(connection)


async def _close(connection: Connection) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 0.1):
        await connection.aclose()
