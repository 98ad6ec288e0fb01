"""What clients asked of the log, and its answers, in order.

It is the evidence for invariants AcknowledgedWrites and NothingFromStrangers.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from kraft_trio.protocol.types import ReplicaKey

ADD_VOTER: Final = "add-voter"
REMOVE_VOTER: Final = "remove-voter"
REASSIGN: Final = "reassign"
CANCEL_REASSIGNMENT: Final = "cancel-reassignment"
UPGRADE: Final = "upgrade"

TRANSFER: Final = "transfer"

BARRIER_READ: Final = "barrier-read"
"""The kind of a read behind a read barrier of a node."""

LEASE_READ: Final = "lease-read"
"""In a file, the kind of such a read if a lease made a round unnecessary."""

EXECUTE: Final = "execute"
"""The kind of a command that an application executes."""

QUERY: Final = "query"
"""The kind of a read of the application's state, behind a read barrier."""

ADMINISTRATION: Final = frozenset({ADD_VOTER, REMOVE_VOTER, REASSIGN, CANCEL_REASSIGNMENT, UPGRADE, TRANSFER})
"""The kinds of an administrator's operations."""

NOT_TOLD: Final = object()
"""The result of a command of which the client learns at most that it was applied."""

SHOWN_BYTES: Final = 32
"""How many bytes of a value are printed."""


class Outcome(enum.StrEnum):
    """What a client knows of the effect of its operation."""

    PENDING = "pending"
    """Not answered, perhaps never; equivalent to unknown."""
    OK = "ok"
    """It took effect between its invocation and its completion."""
    FAIL = "fail"
    """It has not taken effect and never will."""
    UNKNOWN = "unknown"
    """It took effect, or will, or never does; at most once."""


@attrs.define(eq=False)
class Operation:
    """One operation of one client.  Only `History` makes and completes it."""

    client: str
    number: int
    """From 0, by client."""
    kind: str
    """"append", "read", or the name of another registered kind."""
    values: tuple[bytes, ...]
    """For an append, the values of its batch.  For a read, the values that it returned."""
    via: int | None
    """The node whose process the client is embedded in; None over the network."""
    from_offset: int | None
    """For a read, where it begins (inclusive)."""
    is_linearizable: bool
    """Whether it must reflect everything that was completed before it began.  Any other read must still return
    committed values without a gap."""
    invoked_at_s: float
    """Virtual seconds since the run began."""
    invoked_as: int
    """Its place among all invocations and completions of the history: the exact order in real time."""
    outcome: Outcome = Outcome.PENDING
    completed_at_s: float | None = None
    completed_as: int | None = None
    offsets: tuple[int, ...] = ()
    """The offset of each value, if the outcome is ok."""
    end_offset: int | None = None
    """For a read with outcome ok, the end of what it read (exclusive)."""
    problem: str = ""
    """Why it failed or is unknown, in words."""
    subject: str = ""
    """For an administrator's operation, the ids of the nodes concerned."""
    voter: ReplicaKey | None = None
    """For a voter change, the exact replica, once it is known."""
    is_by_lease: bool = False
    """For a read behind a read barrier, whether the leader answered by its lease, without a round."""
    command: object = None
    """What a client of a user's state machine executes or asks."""
    result: object = NOT_TOLD

    @property
    def is_pending(self) -> bool:
        return self.outcome is Outcome.PENDING

    @property
    def name(self) -> str:
        """Client and number, unique in its history."""
        return f"{self.client}/{self.number}"

    @property
    def asks(self) -> str:
        """For an administrator's operation, kind and subject, such as "add-voter 4"."""
        return f"{self.kind} {self.subject}".strip()

    def __str__(self) -> str:
        where = "over the network" if self.via is None else f"in node {self.via}"
        what = f"{len(self.values)} values" if len(self.values) > 3 else " ".join(map(_shown, self.values))
        what = what or self.subject
        offsets = f" at {_span(self.offsets)}" if self.offsets else ""
        read = "" if self.from_offset is None else f" from {self.from_offset}"
        read += "" if self.end_offset is None else f" to {self.end_offset}"
        ended = "" if self.completed_at_s is None else f", {self.outcome} at {self.completed_at_s:.6f} s"
        problem = f" ({self.problem})" if self.problem else ""
        return (
            f"{self.name} {self.kind} {where}{read}: {what or 'no value'}{offsets}, "
            f"invoked at {self.invoked_at_s:.6f} s{ended or ', not answered'}{problem}"
        )


class History:
    """All operations of all clients in one run, in the order of their invocations."""

    def __init__(
        self,
        now_s: Callable[[], float],
        report: Callable[[Operation], object] | None = None,
        end_of_values: Callable[[int], int] = lambda _end: 0,
    ) -> None:
        """`report` is called when an operation is invoked, and again when it is completed, in the same step.

        `end_of_values` returns the end (exclusive) of the last committed value below an offset, or 0.
        """
        self._now_s = now_s
        self._end_of_values = end_of_values
        self._reporter = report
        self._events = 0
        self._numbers: dict[str, int] = {}
        self._by_value: dict[bytes, Operation] = {}
        self.operations: list[Operation] = []
        self.is_complete = False
        """Whether every value that clients append is an operation here.  Any other committed value is then a
        violation."""
        self.known_end = 0
        """The end (exclusive) of the last value that any client knows to be committed, from an append or a read."""

    def invoke(
        self,
        kind: str,
        *,
        client: str,
        values: Sequence[bytes] = (),
        via: int | None = None,
        from_offset: int | None = None,
        is_linearizable: bool | None = None,
        subject: str = "",
    ) -> Operation:
        """Record that a client is about to begin an operation.  An append is linearizable by default.

        Raises ValueError if a value was appended before, because only unique values can be traced.
        """
        for index, value in enumerate(values):
            other = self._by_value.get(value)
            if other is not None or value in values[:index]:
                by = "this append" if other is None else other.name
                raise ValueError(f"values[{index}]: {value!r} is appended by {by} already; expected a unique value")
        number = self._numbers[client] = self._numbers.get(client, -1) + 1
        operation = Operation(
            client,
            number,
            kind,
            tuple(values),
            via,
            from_offset,
            bool(values) if is_linearizable is None else is_linearizable,
            self._now_s(),
            self._next_event(),
            subject=subject,
        )
        self.operations.append(operation)
        self._by_value.update(dict.fromkeys(operation.values, operation))
        self._report(operation)
        return operation

    def succeed(
        self,
        operation: Operation,
        *,
        offsets: Sequence[int] = (),
        values: Sequence[bytes] | None = None,
        end_offset: int | None = None,
        from_offset: int | None = None,
        is_by_lease: bool = False,
    ) -> None:
        """The client learned that the operation took effect.  A read gets its values and the end of what it read.

        `from_offset` is where the read began, if that is not what it asked for.
        """
        _check_pending(operation)
        if values is not None:
            assert operation.from_offset is not None, "only a read is given values"
            operation.values = tuple(values)
        if from_offset is not None:
            operation.from_offset = from_offset
        ends = [offset + 1 for offset in offsets]
        if end_offset is not None:
            # A trimmed log no longer gives the values below its start, but they are committed.
            ends.append(self._end_of_values(end_offset))
        self.known_end = max(self.known_end, *ends, 0)
        operation.offsets = tuple(offsets)
        operation.end_offset = end_offset
        operation.is_by_lease = is_by_lease
        self._complete(operation, Outcome.OK, "")

    def fail(self, operation: Operation, problem: str) -> None:
        """The client learned that the operation did not take effect and never will."""
        self._complete(operation, Outcome.FAIL, problem)

    def lose(self, operation: Operation, problem: str) -> None:
        """The client cannot learn the outcome, so it is unknown."""
        self._complete(operation, Outcome.UNKNOWN, problem)

    def append_of(self, value: bytes) -> Operation | None:
        """The operation that appended this value, or None."""
        return self._by_value.get(value)

    def request(self, asks: str) -> Operation | None:
        """The last administrator's operation of that kind and subject, such as "add-voter 4", or None."""
        return next((o for o in reversed(self.operations) if o.asks == asks and not o.values), None)

    def count(self, kind: str, outcome: Outcome) -> int:
        """The number of operations of that kind with that outcome."""
        return sum(operation.kind == kind and operation.outcome is outcome for operation in self.operations)

    def reads_behind_barriers(self) -> tuple[int, int]:
        """How many reads behind a read barrier the leader has answered by rounds, and how many by its lease."""
        kinds = (BARRIER_READ, QUERY)
        done = [read.is_by_lease for read in self.operations if read.kind in kinds and read.outcome is Outcome.OK]
        return done.count(False), done.count(True)

    def _complete(self, operation: Operation, outcome: Outcome, problem: str) -> None:
        _check_pending(operation)
        operation.outcome = outcome
        operation.problem = problem
        operation.completed_at_s = self._now_s()
        operation.completed_as = self._next_event()
        self._report(operation)

    def _next_event(self) -> int:
        self._events += 1
        return self._events

    def _report(self, operation: Operation) -> None:
        if self._reporter is not None:
            self._reporter(operation)


def _check_pending(operation: Operation) -> None:
    assert operation.is_pending, f"{operation}: an operation is completed once"


def _shown(value: bytes) -> str:
    return repr(value) if len(value) <= SHOWN_BYTES else f"{value[:SHOWN_BYTES].rstrip()!r}… ({len(value)} bytes)"


def _span(offsets: Sequence[int]) -> str:
    return str(offsets[0]) if len(offsets) == 1 else f"{offsets[0]}..{offsets[-1]}"
