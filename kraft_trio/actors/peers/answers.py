"""The response to a routed request, which is there already or will come from an actor or the leader."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import attrs

from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.channels import Reply
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import Api

T = TypeVar("T")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class Answer(Protocol):
    """The response to one request, now or later."""

    @property
    def is_ready(self) -> bool: ...

    def when_ready(self, listener: Callable[[], object]) -> None:
        """Call `listener` whenever the answer may have become ready, and at once if it is ready."""
        ...

    def response(self) -> Any:
        """The response, once it is ready; None if the client expects none (Produce with acks=0)."""
        ...

    def abandon(self) -> None:
        """Drop the answer, because its connection has ended.  Called once, ready or not."""
        ...


@attrs.frozen
class Ready:
    """An answer that is ready from the start."""

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
    """An answer that is made from the replies of actors."""

    def __init__(self, replies: Sequence[Reply[T]], respond: Callable[[Sequence[T]], Any]) -> None:
        self._replies = replies
        self._respond = respond
        self._answered = 0
        """How many of the first replies are known to be answered, so that they are not checked again."""

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
    """An answer that is computed by `work`, which the connection runs as a task."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        """`work` returns the response, and must not raise."""
        self._reply: Reply[T] = Reply()
        super().__init__((self._reply,), lambda values: values[0])
        self._work = work

    async def work(self) -> None:
        """Run the work.  A cancelled call gives no answer, because the connection has ended."""
        self._reply.answer(await self._work())


class Forwarded(Worked[ResponseT], Generic[RequestT, ResponseT]):
    """The leader's answer to a request that a follower passes on, or `refusal` if there is none.

    Clients send some requests to any broker, and Kafka's brokers pass those on too.
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
