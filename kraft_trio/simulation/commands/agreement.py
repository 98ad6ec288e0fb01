"""What the replicas of a state machine must agree on: which commands are applied, their results, and the states.

The first replica that applies a record decides; a model applies the same record in the same step.  Every other replica,
and every later process that applies the record again, is compared with the first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

import attrs

from kraft_trio.application.machine_adapter import REQUEST_HEADER
from kraft_trio.application.outcomes import Outcome
from kraft_trio.application.state_machine import Committed, StateMachine
from kraft_trio.errors import CommandFailed
from kraft_trio.storage.batches.batch import NewRecord, Record

SAME_COMMANDS: Final = "all replicas apply the same commands, each request once"
SAME_RESULTS: Final = "the result of a command depends on the state and the command alone"
SAME_STATES: Final = "replicas that have applied the same commands are in the same state"
AS_THE_MODEL: Final = "results and answers are those of the model"
TOLD_AS_APPLIED: Final = "a client is told the result of its command, which is applied once"

SHOWN_RECORDS: Final = 3
_SHOWN_CHARACTERS: Final = 200

State = Sequence[tuple[bytes | None, bytes | None, object]]
"""Saved records: key, value and headers."""


class Reporter(Protocol):
    """Ends the run with facts that contradict each other."""

    def __call__(self, title: str, facts: tuple[str, ...], nodes: Collection[int] = ()) -> object: ...


@attrs.define(eq=False)
class AppliedCommand:
    """What became of one committed record where it was applied first."""

    record: Committed[Any]
    outcome: Outcome[Any]
    node: int
    compares_states: bool
    state: State | None = None
    """The state after it, saved by that node."""

    @property
    def offset(self) -> int:
        return self.record.offset


@attrs.frozen(eq=False)
class _Answered:
    place: int
    """The offset of the last command (inclusive) that the state included; -1 without any."""
    query: Any
    answer: Any
    node: int


class Agreement:
    """One run's record of what was applied.  A contradiction is reported in the step in which it appears."""

    def __init__(self, make: Callable[[], Any], report: Reporter) -> None:
        self.sample = make()
        """An instance that applies nothing: it makes the commands and queries of clients."""
        self.acknowledged = 0
        """How many commands clients were told the result of."""
        self.answered: list[_Answered] = []
        self._make = make
        self._report = report
        self._has_own_model = hasattr(self.sample, "model")
        self._model: StateMachine = self.sample.model() if self._has_own_model else make()
        self._commands: list[AppliedCommand] = []
        self._by_offset: dict[int, AppliedCommand] = {}
        self._by_request: dict[bytes, AppliedCommand] = {}
        self._refused: dict[bytes, str] = {}
        self._since_compared = 0
        self._size = 0
        """How many records the state had that was compared last."""

    @property
    def newest_offset(self) -> int:
        """The offset of the newest command that was applied; -1 without any."""
        return self._commands[-1].offset if self._commands else -1

    # The replicas

    def apply(self, record: Committed[Any], node: int, before: int | None, apply: Callable[[], Outcome[Any]]) -> None:
        """A replica applies a record by that function, having applied `before` (inclusive) last; None if unknown."""
        known = self._by_offset.get(record.offset)
        newest = self._commands[-1] if self._commands else None
        if known is None and newest is not None and newest.offset > record.offset:
            fact = f"node {newest.node} has applied offset {newest.offset} without applying offset {record.offset}"
            self._report(SAME_COMMANDS, (fact, f"node {node} applies it"), _ids(newest.node, node))
        if before is not None:
            self._check_gap(before, record.offset, node)
        if known is not None:
            self._again(known, apply(), node)
            return
        expected = self._of_model(copy.deepcopy(record))
        outcome = apply()
        self._first(record, outcome, node)
        if not same(outcome, expected):
            title, model = (AS_THE_MODEL, "the model") if self._has_own_model else (SAME_RESULTS, "another instance")
            self._report(title, (_given(record, node, outcome), f"{model} gives {_shown(expected)}"), (node,))

    def _check_gap(self, before: int, offset: int, node: int) -> None:
        for command in reversed(self._commands):
            if command.offset <= before:
                return
            if command.offset < offset:
                fact = f"node {command.node} has applied offset {command.offset}"
                other = f"node {node} applies offset {offset} after offset {before}"
                self._report(SAME_COMMANDS, (fact, other), _ids(command.node, node))

    def _of_model(self, record: Committed[Any]) -> Outcome[Any]:
        try:
            return Outcome(self._model.apply(record))
        except Exception as error:
            return Outcome(error=error)

    def _first(self, record: Committed[Any], outcome: Outcome[Any], node: int) -> None:
        self._since_compared += 1
        compares = self._since_compared > self._size
        command = AppliedCommand(record, Outcome(_kept(outcome.result), outcome.error), node, compares)
        self._commands.append(command)
        self._by_offset[record.offset] = command
        for name, value in record.headers:
            if name == REQUEST_HEADER and value is not None:
                earlier = self._by_request.setdefault(value, command)
                self._check_refused(value)
                if earlier is not command:
                    fact = f"node {earlier.node} has applied request {UUID(bytes=value)} at offset {earlier.offset}"
                    other = f"node {node} applies it again at offset {record.offset}"
                    self._report(SAME_COMMANDS, (fact, other), _ids(earlier.node, node))

    def _again(self, known: AppliedCommand, outcome: Outcome[Any], node: int) -> None:
        if not same(outcome, known.outcome):
            fact = _given(known.record, known.node, known.outcome)
            self._report(SAME_RESULTS, (fact, f"node {node} gives {_shown(outcome)}"), _ids(known.node, node))

    def compares_states_at(self, offset: int) -> bool:
        """Whether the states after that offset are compared: seldom enough that it costs no more than the commands."""
        command = self._by_offset.get(offset)
        return command is not None and command.compares_states

    def state_after(self, offset: int, node: int, state: State) -> None:
        """A replica has saved its state after that offset."""
        command = self._by_offset[offset]
        if command.state is None:
            command.state = state
            self._since_compared, self._size = 0, len(state)
            if not self._has_own_model:
                self._compare(offset, (command.node, "node"), (None, "another instance"), state, saved(self._model))
        elif state != command.state:
            self._compare(offset, (command.node, "node"), (node, "node"), command.state, state)

    def _compare(
        self, offset: int, first: tuple[int | None, str], second: tuple[int | None, str], state: State, other: State
    ) -> None:
        if state == other:
            return
        names = [kind if id is None else f"{kind} {id}" for id, kind in (first, second)]
        facts = [
            f"after offset {offset}, {name} saves {_records(one, two)}"
            for name, one, two in zip(names, (state, other), (other, state), strict=True)
        ]
        self._report(SAME_STATES, tuple(facts), _ids(*(id for id, _ in (first, second) if id is not None)))

    # The clients

    def acknowledged_at(self, request: UUID, outcome: Outcome[Any], node: int) -> int:
        """A client has been told the outcome of its request.  Returns the offset at which it was applied."""
        command = self._by_request.get(request.bytes)
        self.acknowledged += 1
        if command is None:
            fact = f"node {node} gave its client {_shown(outcome)} for request {request}"
            self._report(TOLD_AS_APPLIED, (fact, "no replica has applied it"), (node,))
            return -1
        if not same(outcome, command.outcome):
            fact = f"node {node} gave its client {_shown(outcome)} for {command.record.value!r}"
            self._report(TOLD_AS_APPLIED, (fact, _given(command.record, command.node, command.outcome)), (node,))
        return command.offset

    def refused(self, request: UUID, problem: str) -> None:
        """A client has been told that its request was not applied and never will be."""
        self._refused[request.bytes] = problem
        self._check_refused(request.bytes)

    def _check_refused(self, request: bytes) -> None:
        command, problem = self._by_request.get(request), self._refused.get(request)
        if command is not None and problem is not None:
            fact = f"the client of request {UUID(bytes=request)} was told: {problem}"
            other = f"node {command.node} has applied it at offset {command.offset}"
            self._report(TOLD_AS_APPLIED, (fact, other), (command.node,))

    def answered_at(self, place: int, query: Any, answer: Any, node: int) -> None:
        """A replica that has applied everything up to `place` (inclusive) has answered a query."""
        self.answered.append(_Answered(place, query, _kept(answer), node))

    def finished(self) -> None:
        """Check the answers, by applying everything again."""
        machine = self.sample.model() if hasattr(self._model, "answer") and self._has_own_model else self._make()
        commands = iter(self._commands)
        command = next(commands, None)
        for asked in sorted(self.answered, key=lambda asked: asked.place):
            while command is not None and command.offset <= asked.place:
                try:
                    machine.apply(copy.deepcopy(command.record))
                except CommandFailed:
                    pass
                command = next(commands, None)
            expected = machine.answer(asked.query)
            if not same(Outcome(asked.answer), Outcome(expected)):
                fact = f"node {asked.node} answered {asked.query!r} after offset {asked.place}: {_cut(asked.answer)}"
                other = f"the commands up to there, applied again, give {_cut(expected)}"
                self._report(AS_THE_MODEL, (fact, other), (asked.node,))


def saved(machine: StateMachine) -> State:
    """The records of a machine's present state, in a form that can be compared."""
    return [content_of(record) for record in machine.save()]


def content_of(record: NewRecord | Record | bytes) -> tuple[bytes | None, bytes | None, object]:
    if isinstance(record, bytes):
        return (None, record, ())
    return (record.key, record.value, tuple(record.headers))


def same(one: Outcome[Any], other: Outcome[Any]) -> bool:
    """Whether two outcomes are equal.  Results whose class defines no equality are not compared."""
    if one.error is None or other.error is None:
        return one.error is other.error and _are_equal(one.result, other.result)
    # An error that a retry gets may have lost its class.
    classes = {type(one.error), type(other.error)}
    is_alike = one.error.args == other.error.args or str(one.error) == str(other.error)
    return is_alike and (len(classes) == 1 or CommandFailed in classes)


def _are_equal(one: Any, other: Any) -> bool:
    equality: object = type(one).__eq__
    has_no_equality = equality == object.__eq__
    # NaN is not equal to itself, but looks like itself.
    return bool(one == other or repr(one) == repr(other) or (has_no_equality and type(one) is type(other)))


def _kept(value: Any) -> Any:
    """A copy that stays what it is when the state changes, if there can be one."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _ids(*nodes: int) -> tuple[int, ...]:
    return tuple(sorted(set(nodes)))


def _given(record: Committed[Any], node: int, outcome: Outcome[Any]) -> str:
    return f"node {node} gives {_shown(outcome)} for {_cut(record.value)} at offset {record.offset}"


def _shown(outcome: Outcome[Any]) -> str:
    return _cut(outcome.result if outcome.error is None else outcome.error)


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _records(state: State, other: State) -> str:
    """The first records in which a state differs from another one."""
    unlike = [record for index, record in enumerate(state) if index >= len(other) or record != other[index]]
    shown = ", ".join(_cut((key, value) if key is not None else value) for key, value, _ in unlike[:SHOWN_RECORDS])
    return f"{len(state)} records, among them {shown}" if shown else f"{len(state)} records"
