"""What a routed request leaves behind: an answer that is there, or one that an actor or the leader will give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import attrs

from kraft_trio.actors.network_client import NetworkClient
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.messages import Reply
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import Api

T = TypeVar("T")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class Answer(Protocol):
    """The response to one request, or None where the protocol wants none (Produce with acks=0)."""

    async def value(self) -> Any: ...


@attrs.frozen
class Ready:
    """An answer given at once."""

    response: Any

    async def value(self) -> Any:
        return self.response


@attrs.frozen
class Awaited(Generic[T]):
    """The answer of an actor, made into the response."""

    reply: Reply[T]
    respond: Callable[[T], Any]

    async def value(self) -> Any:
        return self.respond(await self.reply.receive())


@attrs.frozen
class Forwarded(Generic[RequestT, ResponseT]):
    """The leader's answer to what a client asked a follower; `refusal` where the leader gives none.

    Tools and clients put some requests to any broker, and Kafka's brokers pass those on too.
    """

    client: NetworkClient
    leader: Endpoint
    api: Api[RequestT, ResponseT]
    request: RequestT
    timeout_ms: int
    refusal: ResponseT

    async def value(self) -> ResponseT:
        try:
            return await self.client.request(self.leader, self.api, self.request, self.timeout_ms)
        except (NetworkError, UnsupportedVersionError):
            return self.refusal
