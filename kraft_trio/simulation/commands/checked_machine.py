"""Wraps a user's state machine, one instance for each process of a node, and compares what it does."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from kraft_trio.application.outcomes import Outcome
from kraft_trio.application.state_machine import Committed, StateMachine
from kraft_trio.errors import CommandFailed
from kraft_trio.simulation.commands.agreement import Agreement, Reporter, State, content_of, saved
from kraft_trio.simulation.commands.call_watch import watched_calls
from kraft_trio.storage.batches.batch import NewRecord, Record

NO_CLOCK: Final = "a state machine reads no clock and draws no random number"
LOADED_AS_SAVED: Final = "a state machine that has loaded a snapshot saves the same one"
SAVED_AT_ONCE: Final = "save returns the state at the time of the call"


class CheckedMachine:
    """A StateMachine that passes each call on to the user's, and checks what it does; made by `checked`."""

    def __init__(self, machine: StateMachine, node_id: int, agreement: Agreement, report: Reporter) -> None:
        """Use `checked`."""
        self.machine = machine
        self.applied_offset: int | None = -1
        """The offset of the last record that it has applied; -1 before the first, None after a snapshot."""
        self._node = node_id
        self._agreement = agreement
        self._report = report
        if hasattr(machine, "on_leader_change"):
            self.on_leader_change = machine.on_leader_change

    def _apply(self, record: Committed[Any]) -> Any:
        outcome: Outcome[Any] = Outcome()

        def run() -> Outcome[Any]:
            nonlocal outcome
            with self._watched(f"apply, given {record.value!r} at offset {record.offset},"):
                try:
                    outcome = Outcome(self.machine.apply(record))
                except CommandFailed as error:
                    outcome = Outcome(error=error)
            return outcome

        self._agreement.apply(record, self._node, self.applied_offset, run)
        self._has_applied(record)
        return outcome.get()

    def _apply_in_steps(self, record: Committed[Any]) -> Generator[None, None, Any] | None:
        what = f"apply_in_steps, given {record.value!r} at offset {record.offset},"
        with self._watched(what):
            steps = cast(Any, self.machine).apply_in_steps(record)
        return None if steps is None else self._checked_steps(record, what, steps)

    def _checked_steps(
        self, record: Committed[Any], what: str, steps: Generator[None, None, Any]
    ) -> Generator[None, None, Any]:
        outcome: Outcome[Any] | None = None
        while outcome is None:
            with self._watched(what):
                try:
                    next(steps)
                except StopIteration as end:
                    outcome = Outcome(end.value)
                except CommandFailed as error:
                    outcome = Outcome(error=error)
            if outcome is None:
                yield
        ended = outcome
        self._agreement.apply(record, self._node, self.applied_offset, lambda: ended)
        self._has_applied(record)
        return ended.get()

    def _has_applied(self, record: Committed[Any]) -> None:
        self.applied_offset = record.offset
        if self._agreement.compares_states_at(record.offset):
            self._agreement.state_after(record.offset, self._node, self._saved())

    def compare(self) -> None:
        """Compare the present state with that of other replicas, after at least one command."""
        if self.applied_offset is not None and self.applied_offset >= 0:
            self._agreement.state_after(self.applied_offset, self._node, self._saved())

    def save(self) -> Iterable[NewRecord | bytes]:
        now = self._saved()
        return self._lasting(iter(self.machine.save()), now)

    def _saved(self) -> State:
        with self._watched("save"):
            return saved(self.machine)

    def _lasting(self, records: Iterator[NewRecord | bytes], now: State) -> Iterator[NewRecord | bytes]:
        for number, record in enumerate(records):
            if number >= len(now) or content_of(record) != now[number]:
                expected = repr(now[number]) if number < len(now) else "not there"
                fact = f"when save was called on node {self._node}, record {number} of the state was {expected}"
                later = f"it gave {content_of(record)!r}, after more commands were applied"
                self._report(SAVED_AT_ONCE, (fact, later), (self._node,))
            yield record

    async def load(self, records: AsyncIterator[Record]) -> None:
        loaded: list[Any] = []

        async def passing() -> AsyncIterator[Record]:
            async for record in records:
                loaded.append(content_of(record))
                yield record

        await self.machine.load(passing())
        self.applied_offset = None
        state = self._saved()
        if state != loaded:
            fact = f"node {self._node} has loaded {len(loaded)} records, {_first(loaded, state)}"
            other = f"it then saves {len(state)} records, {_first(list(state), loaded)}"
            self._report(LOADED_AS_SAVED, (fact, other), (self._node,))

    @contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        with watched_calls() as calls:
            yield
        if calls:
            facts = ("the same command must give the same state on every replica", f"{what} calls {calls[0]}")
            self._report(NO_CLOCK, facts, (self._node,))


def _first(state: list[Any], other: Any) -> str:
    """The first record that differs."""
    for index, record in enumerate(state):
        if index >= len(other) or record != other[index]:
            return f"number {index}: {record!r}"
    return "all of them also in the other"


def checked(machine: StateMachine, node_id: int, agreement: Agreement, report: Reporter) -> CheckedMachine:
    """Wrap a state machine.  Its `apply` keeps its annotations, which tell how results are stored."""

    @functools.wraps(type(machine).apply)
    def apply(self: CheckedMachine, record: Committed[Any]) -> Any:
        return self._apply(record)

    methods: dict[str, Any] = {"apply": apply}
    if hasattr(machine, "apply_in_steps"):
        methods["apply_in_steps"] = CheckedMachine._apply_in_steps
    cls = type(f"Checked{type(machine).__name__}", (CheckedMachine,), methods)
    return cast(CheckedMachine, cls(machine, node_id, agreement, report))
