"""What a routed request leaves behind: an answer that is there, or one that an actor will give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import attrs

from kraft_trio.messages import Reply

T = TypeVar("T")


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
