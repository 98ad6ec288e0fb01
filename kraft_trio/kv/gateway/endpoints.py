"""The HTTP endpoints, as ASGI applications: one for each operation, and one for each stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final
from uuid import UUID

import attrs
import trio
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from kraft_trio.errors import leaves
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.gateway.elections import Elections, LeaderRequest
from kraft_trio.kv.gateway.http_errors import error_response, json_response
from kraft_trio.kv.gateway.operations import Operation
from kraft_trio.kv.gateway.request_stream import (
    Disconnected,
    ResponseStream,
    body_of,
    messages_of,
    wait_for_disconnect,
)
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.gateway.watch_stream import WatchStream
from kraft_trio.kv.proto_json import dumps, parse
from kraft_trio.kv.requests import LeaseKeepAliveRequest, WatchRequest
from kraft_trio.logs import get_logger
from kraft_trio.protocol.request_ids import is_request_id

log = get_logger(__name__)

REQUEST_ID_HEADER: Final = "kraft-request-id"


@attrs.frozen
class UnaryEndpoint:
    """Reads one message, and answers with one."""

    operation: Operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = None
        try:
            message = parse(self.operation.request, await body_of(receive))
            request_id = _request_id(Request(scope)) if self.operation.is_write else None
            if self.operation.waits_for_others:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_cancel_at_disconnect, receive, nursery.cancel_scope)
                    response = json_response(dumps(await self.operation.handler(message, request_id)))
                    nursery.cancel_scope.cancel()
            else:
                response = json_response(dumps(await self.operation.handler(message, request_id)))
        except Disconnected:
            return
        except (KvError, BaseExceptionGroup) as error:
            response = error_response(_only_kv_error(error))
        if response is not None:
            await response(scope, receive, send)


async def _cancel_at_disconnect(receive: Receive, scope: trio.CancelScope) -> None:
    await wait_for_disconnect(receive)
    scope.cancel()


def _only_kv_error(error: BaseException) -> KvError:
    """The KvError, which may be in groups of nurseries; anything else is raised."""
    for leaf in leaves(error):
        if not isinstance(leaf, KvError):
            raise error
        return leaf
    raise error


def _request_id(request: Request) -> UUID | None:
    text = request.headers.get(REQUEST_ID_HEADER)
    if text is None:
        return None
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


@attrs.frozen
class KeepAliveEndpoint:
    """Answers each message with one."""

    service: KvService

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream: ResponseStream[Any] = ResponseStream(scope, receive, send)
        async with _streaming(stream), aclosing(messages_of(LeaseKeepAliveRequest, receive)) as messages:
            async for message in messages:
                await stream.send(await self.service.lease_keep_alive(message))
            await stream.end()


@attrs.frozen
class WatchEndpoint:
    """Goes on until the client leaves."""

    service: KvService

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream: ResponseStream[Any] = ResponseStream(scope, receive, send)
        async with _streaming(stream), trio.open_nursery() as nursery:
            watches = WatchStream(self.service, nursery, stream.send)
            async with aclosing(messages_of(WatchRequest, receive)) as messages:
                async for message in messages:
                    await watches.handle(message)
            await wait_for_disconnect(receive)
            nursery.cancel_scope.cancel()


@attrs.frozen
class ObserveEndpoint:
    """Tells of the leaders of one election until the client leaves."""

    elections: Elections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream: ResponseStream[Any] = ResponseStream(scope, receive, send)
        async with _streaming(stream), trio.open_nursery() as nursery:
            request = parse(LeaderRequest, await body_of(receive))
            nursery.start_soon(self.elections.observe, request, stream.send)
            await wait_for_disconnect(receive)
            nursery.cancel_scope.cancel()
