"""What a routed request leaves behind: an answer that is there, or one that an actor or the leader will give."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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
    """The response to one request, sooner or later."""

    @property
    def is_ready(self) -> bool: ...

    def when_ready(self, listener: Callable[[], object]) -> None:
        """Call `listener` each time that the answer may have become ready; at once if it is."""
        ...

    def response(self) -> Any:
        """The response, once it is ready; None where the protocol wants none (Produce with acks=0)."""
        ...

    def abandon(self) -> None:
        """The connection has ended, and nobody waits for the response any more.  Called once, ready or not."""
        ...


@attrs.frozen
class Ready:
    """An answer given at once."""

    value: Any

    @property
    def is_ready(self) -> bool:
        return True

    def when_ready(self, listener: Callable[[], object]) -> None:
        listener()

    def response(self) -> Any:
        return self.value

    def abandon(self) -> None:
        pass


class Awaited(Generic[T]):
    """The answers of actors, made into the response."""

    def __init__(self, replies: Sequence[Reply[T]], respond: Callable[[Sequence[T]], Any]) -> None:
        self._replies = replies
        self._respond = respond
        self._answered = 0
        """How many replies, from the first one on, are known to be answered: a Fetch may have a thousand."""

    @property
    def is_ready(self) -> bool:
        replies = self._replies
        count = len(replies)
        while self._answered < count and replies[self._answered].is_answered:
            self._answered += 1
        return self._answered == count

    def when_ready(self, listener: Callable[[], object]) -> None:
        if self.is_ready:
            listener()
            return
        for reply in self._replies[self._answered :]:
            if not reply.is_answered:
                reply.when_answered(listener)

    def response(self) -> Any:
        return self._respond([reply.value for reply in self._replies])

    def abandon(self) -> None:
        for reply in self._replies:
            reply.abandon()


class Worked(Awaited[T]):
    """What comes of work that takes a while; somebody has to run `work` for the answer to come."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        """`work` raises nothing: its result is the response."""
        self._reply: Reply[T] = Reply()
        super().__init__((self._reply,), lambda values: values[0])
        self._work = work

    async def work(self) -> None:
        """Do it.  A cancelled call leaves no answer: there is then nobody to give it to."""
        self._reply.answer(await self._work())


class Forwarded(Worked[ResponseT], Generic[RequestT, ResponseT]):
    """The leader's answer to what a client asked a follower; `refusal` where the leader gives none.

    Tools and clients put some requests to any broker, and Kafka's brokers pass those on too.
    """

    def __init__(
        self,
        client: NetworkClient,
        leader: Endpoint,
        api: Api[RequestT, ResponseT],
        request: RequestT,
        timeout_ms: int,
        refusal: ResponseT,
    ) -> None:
        async def forward() -> ResponseT:
            try:
                return await client.request(leader, api, request, timeout_ms)
            except (NetworkError, UnsupportedVersionError):
                return refusal

        super().__init__(forward)
