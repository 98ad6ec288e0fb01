"""Kinds of client operations, by name.

A kind is a class that defines how an operation is invoked and attempted.  After `@register`, every workload draws it
too.
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
from kraft_trio.simulation.facts.history import BARRIER_READ, History, Operation

if TYPE_CHECKING:
    import random

    from kraft_trio.simulation.clients.log_access import LogAccess, Values

NO_EFFECT: Final = (NetworkError, RefusedError, RecordTooLargeError, NodeClosedError)
"""After these errors of `LogClient.produce` and `Node.append`, the operation has not happened and never will."""

PERHAPS: Final = (OutcomeUnknownError, UnsupportedVersionError, StorageFailure, CorruptLogError, trio.TooSlowError)
"""After these errors the operation may have happened, or may still happen.  A node whose storage fails raises one of
them; whether it may fail is checked on the node and not here."""

MOST_VALUES: Final = 3
"""The most values in one append."""
LARGEST_PADDING: Final = 300
"""The most bytes of padding after a value."""
TAIL: Final = 30
"""Most reads begin at most this many offsets before the end."""


@attrs.frozen
class Request:
    """What an operation needs to know of its client."""

    client: str
    number: int
    """How many requests this client has made before."""
    random: random.Random
    history: History
    access: LogAccess
    within_s: float
    """How long the client waits for the answer."""
    log_is_trimmed: bool = False
    """Whether nodes trim the log, so that a read may come too late for old records."""


class OperationKind(ABC):
    """One kind of operation.  An instance serves one request."""

    name: ClassVar[str]
    weight: ClassVar[float] = 1.0
    """Its share among the kinds that are drawn."""
    needs_node: ClassVar[bool] = False
    """Whether only an application in the process of a node can do it."""

    def __init__(self, request: Request) -> None:
        self.request = request

    async def perform(self) -> Operation:
        """Invoke the operation, attempt it, and record the outcome.  If cancelled, the operation stays pending."""
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
        """Decide what to ask for, and record it in the history."""

    @abstractmethod
    async def attempt(self, operation: Operation) -> None:
        """Do it and record success, or raise one of NO_EFFECT or PERHAPS."""


OPERATIONS: Final[dict[str, type[OperationKind]]] = {}
"""Every registered kind by its name."""

KindT = TypeVar("KindT", bound=type[OperationKind])


def register(kind: KindT) -> KindT:
    """Let workloads draw this kind.  Raises ValueError if another kind has its name."""
    if kind.name in OPERATIONS:
        raise ValueError(f"{kind.__name__}: there is an operation {kind.name!r} already; expected a name of its own")
    OPERATIONS[kind.name] = kind
    return kind


@register
class Append(OperationKind):
    """Appends a few unique values as one batch."""

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
    """What the reads share: where they begin, and that a failed read has no effect on the log."""

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
        self.request.history.succeed(
            operation,
            offsets=given.offsets,
            values=given.values,
            end_offset=given.end_offset,
            from_offset=given.from_offset,
            is_by_lease=given.is_by_lease,
        )

    @abstractmethod
    async def read(self, from_offset: int) -> Values:
        """Raises what LogAccess raises."""


@register
class ReadKnown(_Reading):
    """Waits for the last value that any client knows to be committed, and reads up to it: a linearizable read.

    The other clients tell it that end, as one application tells another.  So it must return every append that was
    acknowledged before it began.
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
    """Reads what the node or leader knows to be committed: without a gap, but perhaps not the newest values.

    In this protocol, a leader does not verify that it still leads before it answers a read.
    """

    name: ClassVar[str] = "read-committed"
    is_linearizable: ClassVar[bool] = False

    async def read(self, from_offset: int) -> Values:
        return await self.request.access.read_committed(from_offset, self.request.within_s)


@register
class ReadBehindBarrier(_Reading):
    """Waits for a read barrier of a node, and reads what that node then has below the read index."""

    name: ClassVar[str] = BARRIER_READ
    weight: ClassVar[float] = 2.0
    needs_node: ClassVar[bool] = True
    is_linearizable: ClassVar[bool] = True

    async def read(self, from_offset: int) -> Values:
        return await self.request.access.read_behind_barrier(from_offset, self.request.within_s)
