"""The endpoints: one for each operation, and one for each stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs
import trio

from kraft_trio.errors import leaves
from kraft_trio.http.exchange import Disconnected, Exchange
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.gateway.answers import send_answer
from kraft_trio.kv.gateway.elections import Elections, LeaderRequest
from kraft_trio.kv.gateway.http_errors import HTTP_STATUS, error_body
from kraft_trio.kv.gateway.operations import Operation
from kraft_trio.kv.gateway.read_turns import ReadTurns
from kraft_trio.kv.gateway.request_stream import ResponseStream, body_of, messages_of
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.gateway.watch_stream import WatchStream
from kraft_trio.kv.proto_json import parse
from kraft_trio.kv.requests import LeaseKeepAliveRequest, WatchRequest
from kraft_trio.protocol.request_ids import is_request_id

T = TypeVar("T")

REQUEST_ID_HEADER: Final = "kraft-request-id"


@attrs.frozen
class UnaryEndpoint:
    """Reads one message, and answers with one."""

    operation: Operation
    turns: ReadTurns

    async def __call__(self, exchange: Exchange) -> None:
        operation = self.operation
        try:
            message = parse(operation.request, await body_of(exchange))
            request_id = _request_id(exchange) if operation.is_write else None
            if operation.waits_for_others:
                answer = await _while_connected(exchange, partial(operation.handler, message, request_id))
            else:
                answer = await operation.handler(message, request_id)
        except KvError as error:
            await exchange.respond(HTTP_STATUS[error.code], error_body(error))
            return
        await send_answer(exchange, answer, self.turns)


async def _while_connected(exchange: Exchange, wait: Callable[[], Awaitable[T]]) -> T:
    """Return what `wait` returns, or raise Disconnected as soon as the client is gone."""
    answers: list[T] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at_disconnect, exchange, nursery.cancel_scope)
            answers.append(await wait())
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise _only_kv_error(group) from None
    if not answers:
        raise Disconnected
    return answers[0]


async def _cancel_at_disconnect(exchange: Exchange, scope: trio.CancelScope) -> None:
    await exchange.wait_for_disconnect()
    scope.cancel()


def _only_kv_error(error: BaseException) -> KvError:
    """The KvError, which may be in groups of nurseries; anything else is raised."""
    for leaf in leaves(error):
        if not isinstance(leaf, KvError):
            raise error
        return leaf
    raise error


def _request_id(exchange: Exchange) -> UUID | None:
    value = exchange.header(REQUEST_ID_HEADER.encode())
    if value is None:
        return None
    text = value.decode("latin-1")
    try:
        request_id = UUID(text)
    except ValueError:
        request_id = None
    if request_id is None or not is_request_id(request_id):
        raise KvError(Code.INVALID_ARGUMENT, f"{REQUEST_ID_HEADER}: {text[:40]!r} is no UUID of version 7")
    return request_id


@asynccontextmanager
async def _streaming(stream: ResponseStream[Any]) -> AsyncIterator[None]:
    """Tell the client of a KvError in the block, and end quietly when it has left."""
    try:
        yield
    except* Disconnected:
        pass
    except* KvError as group:
        await stream.fail(_only_kv_error(group))


@asynccontextmanager
async def _streaming_until_left(exchange: Exchange) -> AsyncIterator[tuple[ResponseStream[Any], trio.Nursery]]:
    """A stream, and the nursery of its tasks, until the block is done and the client has left."""
    stream: ResponseStream[Any] = ResponseStream(exchange)
    async with _streaming(stream), trio.open_nursery() as nursery:
        yield stream, nursery
        await exchange.wait_for_disconnect()
        nursery.cancel_scope.cancel()


@attrs.frozen
class KeepAliveEndpoint:
    """Answers each message with one."""

    service: KvService

    async def __call__(self, exchange: Exchange) -> None:
        stream: ResponseStream[Any] = ResponseStream(exchange)
        async with _streaming(stream), aclosing(messages_of(LeaseKeepAliveRequest, exchange)) as messages:
            async for message in messages:
                await stream.send(await self.service.lease_keep_alive(message))
            await stream.end()


@attrs.frozen
class WatchEndpoint:
    """Continues until the client leaves."""

    service: KvService

    async def __call__(self, exchange: Exchange) -> None:
        async with _streaming_until_left(exchange) as (stream, nursery):
            watches = WatchStream(self.service, nursery, stream)
            try:
                async with aclosing(messages_of(WatchRequest, exchange)) as messages:
                    async for message in messages:
                        await watches.handle(message)
                await exchange.wait_for_disconnect()
                await watches.end()
            except KvError:
                await watches.sending.acquire()  # nobody else sends any more, and what was begun is whole
                raise
            except Disconnected:
                await watches.end()
                raise


@attrs.frozen
class ObserveEndpoint:
    """Reports the leaders of one election until the client leaves."""

    elections: Elections

    async def __call__(self, exchange: Exchange) -> None:
        async with _streaming_until_left(exchange) as (stream, nursery):
            request = parse(LeaderRequest, await body_of(exchange))
            nursery.start_soon(self.elections.observe, request, stream.send)
