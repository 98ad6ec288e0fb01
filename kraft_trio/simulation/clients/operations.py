"""What clients of the workload do: kinds of operations, by name, which later features add to.

A kind is a class that says how it is invoked and attempted; `@register` makes every workload draw it too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import attrs
import trio

from kraft_trio.errors import (
    CorruptLogError,
    NetworkError,
    NodeClosedError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    ProtocolError,
    RecordTooLargeError,
    RefusedError,
    StorageFailure,
    UnsupportedVersionError,
)
from kraft_trio.simulation.facts.history import History, Operation

if TYPE_CHECKING:
    import random

    from kraft_trio.simulation.clients.log_access import LogAccess, Values

NO_EFFECT: Final = (NetworkError, RefusedError, RecordTooLargeError, NodeClosedError)
"""By the word of `LogClient.produce` and `Node.append`: what was asked for has not happened, and never will."""

PERHAPS: Final = (OutcomeUnknownError, UnsupportedVersionError, StorageFailure, CorruptLogError, trio.TooSlowError)
"""It may have happened, or happen yet.  A node whose storage fails ends with that: whether it may is asked of the node,
not of its clients."""

MOST_VALUES: Final = 3
"""In one append."""
LARGEST_PADDING: Final = 300
"""Bytes."""
TAIL: Final = 30
"""How many offsets from the end most reads begin, at most."""


@attrs.frozen
class Request:
    """One client's wish to do something."""

    client: str
    number: int
    """How many requests of this client there have been before."""
    random: random.Random
    history: History
    access: LogAccess
    within_s: float
    """How long the client waits for the answer."""
    log_is_trimmed: bool = False
    """Whether the log's oldest records go, so that a read may come too late for them."""


class OperationKind(ABC):
    """One kind of operation.  An instance serves one request."""

    name: ClassVar[str]
    weight: ClassVar[float] = 1.0
    """How often it is drawn, in proportion to the others."""

    def __init__(self, request: Request) -> None:
        self.request = request

    async def perform(self) -> Operation:
        """Invoke the operation, attempt it, and note what came of it.  Cancelled, it stays pending."""
        history = self.request.history
        operation = self.invoke()
        try:
            await self.attempt(operation)
        except NO_EFFECT as error:
            history.fail(operation, str(error))
        except PERHAPS as error:
            history.lose(operation, str(error) or f"no answer within {self.request.within_s:g} s")
        return operation

    @abstractmethod
    def invoke(self) -> Operation:
        """Decide what exactly is asked for, and note it in the history."""

    @abstractmethod
    async def attempt(self, operation: Operation) -> None:
        """Do it, and note success; raises one of NO_EFFECT and PERHAPS."""


OPERATIONS: Final[dict[str, type[OperationKind]]] = {}
"""Every registered kind by its name."""

KindT = TypeVar("KindT", bound=type[OperationKind])


def register(kind: KindT) -> KindT:
    """Let workloads draw this kind.  Raises ValueError where another has its name."""
    if kind.name in OPERATIONS:
        raise ValueError(f"{kind.__name__}: there is an operation {kind.name!r} already; expected a name of its own")
    OPERATIONS[kind.name] = kind
    return kind


@register
class Append(OperationKind):
    """Appends a few values that nobody else appends, next to each other."""

    name: ClassVar[str] = "append"
    weight: ClassVar[float] = 6.0

    def invoke(self) -> Operation:
        request = self.request
        count = request.random.randint(1, MOST_VALUES)
        values = [
            b"%s/%d.%d" % (request.client.encode(), request.number, index)
            + b" " * request.random.choice((0, request.random.randrange(LARGEST_PADDING)))
            for index in range(count)
        ]
        return request.history.invoke(self.name, client=request.client, values=values, via=request.access.via)

    async def attempt(self, operation: Operation) -> None:
        request = self.request
        offsets = await request.access.append(operation.values, request.within_s)
        request.history.succeed(operation, offsets=offsets)


class _Reading(OperationKind):
    """What the reads share: where they begin, and that whatever goes wrong with one has no effect on the log."""

    is_linearizable: ClassVar[bool]

    def invoke(self) -> Operation:
        request = self.request
        known_end = request.history.known_end
        back = request.random.randint(0, TAIL) if request.random.random() < 0.95 else known_end
        return request.history.invoke(
            self.name,
            client=request.client,
            via=request.access.via,
            from_offset=max(0, known_end - back),
            is_linearizable=self.is_linearizable,
        )

    async def attempt(self, operation: Operation) -> None:
        from_offset = operation.from_offset
        assert from_offset is not None
        try:
            given = await self.read(from_offset)
        except (*PERHAPS, ProtocolError) as error:
            raise NetworkError(str(error) or f"not read within {self.request.within_s:g} s") from error
        except OffsetOutOfRangeError as error:
            if not self.request.log_is_trimmed:
                raise
            raise NetworkError(str(error)) from error
        self.request.history.succeed(operation, offsets=given.offsets, values=given.values, end_offset=given.end_offset)

    @abstractmethod
    async def read(self, from_offset: int) -> Values:
        """Raises what the way to the log raises."""


@register
class ReadKnown(_Reading):
    """Reads up to the last value that any client knows to be committed, and waits until it can: linearizable.

    Told the end by the other clients, as an application would tell it to the next one that it calls, it has to see
    every append that was acknowledged before it began.
    """

    name: ClassVar[str] = "read"
    is_linearizable: ClassVar[bool] = True

    def invoke(self) -> Operation:
        self._until = self.request.history.known_end
        return super().invoke()

    async def read(self, from_offset: int) -> Values:
        return await self.request.access.read(from_offset, self._until, self.request.within_s)


@register
class ReadCommitted(_Reading):
    """Reads what whoever is asked knows to be committed: without a gap, but perhaps not the newest.

    Nothing in the protocol has a leader make sure, before it answers, that it still is one.
    """

    name: ClassVar[str] = "read-committed"
    is_linearizable: ClassVar[bool] = False

    async def read(self, from_offset: int) -> Values:
        return await self.request.access.read_committed(from_offset, self.request.within_s)
