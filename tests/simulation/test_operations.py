"""Kinds of operations: what they ask for, and what they note of every way in which it can end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import pytest
import trio

from kraft_trio.errors import (
    NetworkError,
    NodeClosedError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    ProtocolError,
    RecordTooLargeError,
    RefusedError,
    UnsupportedVersionError,
)
from kraft_trio.simulation.clients.log_access import LogAccess, Values
from kraft_trio.simulation.clients.operations import (
    OPERATIONS,
    Append,
    OperationKind,
    ReadCommitted,
    ReadKnown,
    Request,
    register,
)
from kraft_trio.simulation.facts.history import History, Operation, Outcome


@attrs.define
class ScriptedAccess(LogAccess):
    """Answers everything alike, and remembers what it was asked."""

    answer: Callable[[], object]
    via: int | None = None
    asked: list[tuple[object, ...]] = attrs.field(factory=list)

    async def append(self, values: Sequence[bytes], within_s: float) -> Sequence[int]:
        self.asked.append(("append", tuple(values), within_s))
        first = self.answer()
        assert isinstance(first, int)
        return range(first, first + len(values))

    async def read(self, from_offset: int, until: int, within_s: float) -> Values:
        self.asked.append(("read", from_offset, until))
        return self._values(until)

    async def read_committed(self, from_offset: int, within_s: float) -> Values:
        self.asked.append(("read_committed", from_offset))
        return self._values(from_offset + 1)

    def _values(self, end: int) -> Values:
        assert self.answer() is not None
        return Values.of([(end - 1, b"read")], end)


def raising(error: Exception) -> Callable[[], object]:
    def answer() -> object:
        raise error

    return answer


def request_to(access: LogAccess, *, history: History | None = None, number: int = 0, seed: int = 0) -> Request:
    chosen = history if history is not None else History(trio.current_time)
    return Request("c", number, random.Random(seed), chosen, access, within_s=2.0)


APPEND_ENDS = [
    (NetworkError("no leader"), Outcome.FAIL, "no leader"),
    (RefusedError("refused"), Outcome.FAIL, "refused"),
    (RecordTooLargeError("too large"), Outcome.FAIL, "too large"),
    (NodeClosedError("stopped"), Outcome.FAIL, "stopped"),
    (OutcomeUnknownError("not confirmed"), Outcome.UNKNOWN, "not confirmed"),
    (UnsupportedVersionError("too old"), Outcome.UNKNOWN, "too old"),
    (trio.TooSlowError(), Outcome.UNKNOWN, "no answer within 2 s"),
]


@pytest.mark.parametrize(("error", "outcome", "problem"), APPEND_ENDS)
async def test_an_append_ends_as_its_error_says(error: Exception, outcome: Outcome, problem: str) -> None:
    operation = await Append(request_to(ScriptedAccess(raising(error)))).perform()
    assert (operation.outcome, operation.problem, operation.offsets) == (outcome, problem, ())


async def test_an_acknowledged_append_notes_its_offsets() -> None:
    access = ScriptedAccess(lambda: 40, via=2)
    operation = await Append(request_to(access, number=7)).perform()
    assert (operation.kind, operation.outcome, operation.via) == ("append", Outcome.OK, 2)
    assert operation.offsets == tuple(range(40, 40 + len(operation.values)))
    assert access.asked == [("append", operation.values, 2.0)]
    assert operation.is_linearizable
    assert [value.rstrip() for value in operation.values] == [b"c/7.%d" % n for n in range(len(operation.values))]


async def test_a_client_never_appends_the_same_value_again() -> None:
    history = History(trio.current_time)
    for number in range(50):
        await Append(request_to(ScriptedAccess(lambda: 0), history=history, number=number, seed=number)).perform()
    values = [value for operation in history.operations for value in operation.values]
    assert len({value.rstrip() for value in values}) == len(values) > 50


READ_ENDS = [NetworkError("cut"), ProtocolError("damaged"), NodeClosedError("stopped"), RefusedError("refused")]


@pytest.mark.parametrize("kind", [ReadKnown, ReadCommitted])
@pytest.mark.parametrize("error", [*READ_ENDS, trio.TooSlowError()])
async def test_a_read_that_goes_wrong_has_failed_and_is_not_unknown(
    kind: type[OperationKind], error: Exception
) -> None:
    operation = await kind(request_to(ScriptedAccess(raising(error)))).perform()
    assert (operation.outcome, operation.problem) == (Outcome.FAIL, str(error) or "not read within 2 s")


async def test_committed_offsets_out_of_range_are_no_ordinary_failure() -> None:
    """A leader has all that is committed.  Nobody asks beyond that, so the node is wrong, and the check finds it."""
    history = History(trio.current_time)
    access = ScriptedAccess(raising(OffsetOutOfRangeError("offset 3 is not in the log")))
    with pytest.raises(OffsetOutOfRangeError):
        await ReadKnown(request_to(access, history=history)).perform()
    assert [operation.outcome for operation in history.operations] == [Outcome.PENDING]


async def test_a_read_goes_to_the_end_known_at_its_invocation() -> None:
    history = History(trio.current_time)
    history.succeed(history.invoke("append", client="other", values=[b"1"]), offsets=[99])
    late = history.invoke("append", client="other", values=[b"2"])

    def answer() -> object:
        history.succeed(late, offsets=[100])
        return 0

    access = ScriptedAccess(answer)
    operation = await ReadKnown(request_to(access, history=history)).perform()
    assert access.asked == [("read", operation.from_offset, 100)]
    assert (operation.end_offset, operation.offsets, operation.values) == (100, (99,), (b"read",))
    assert operation.is_linearizable


async def test_reads_begin_near_the_end_mostly_and_never_behind_it() -> None:
    history = History(trio.current_time)
    history.succeed(history.invoke("append", client="other", values=[b"1"]), offsets=[999])
    begins = []
    for seed in range(200):
        operation = ReadCommitted(request_to(ScriptedAccess(lambda: 0), history=history, seed=seed)).invoke()
        assert not operation.is_linearizable
        begins.append(operation.from_offset or 0)
    assert 0 < begins.count(0) < 30
    assert all(970 <= begin <= 1000 for begin in begins if begin)


async def test_a_cancelled_operation_stays_pending() -> None:
    history = History(trio.current_time)

    class NeverAnswering(ScriptedAccess):
        async def append(self, values: Sequence[bytes], within_s: float) -> Sequence[int]:
            await trio.sleep_forever()
            raise AssertionError

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Append(request_to(NeverAnswering(lambda: 0), history=history)).perform)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert [operation.outcome for operation in history.operations] == [Outcome.PENDING]


@pytest.mark.usefixtures("registry")
def test_another_kind_is_registered_by_its_name_once() -> None:
    class Nothing(OperationKind):
        name: ClassVar[str] = "nothing"

        def invoke(self) -> Operation:
            return self.request.history.invoke(self.name, client=self.request.client)

        async def attempt(self, operation: Operation) -> None:
            self.request.history.succeed(operation)

    assert register(Nothing) is Nothing
    assert OPERATIONS["nothing"] is Nothing
    with pytest.raises(ValueError, match="there is an operation 'nothing' already; expected a name of its own"):
        register(Nothing)
