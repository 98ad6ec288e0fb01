"""Runs a StateMachine behind the interface of the node: encoded records in batches, and their snapshots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

import trio

from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import Committed, StateMachine
from kraft_trio.messages import QuorumView
from kraft_trio.storage.batch import NewRecord, Record

T = TypeVar("T")
R = TypeVar("R")

_RECORDS_A_TURN: Final = 64
"""Records that are applied before other tasks get a turn."""


class MachineAdapter(Generic[T, R]):
    """Decodes the records that StateMachineDriver gives it, and has the state machine apply them one by one."""

    def __init__(self, machine: StateMachine[T, R], serde: Serde[T]) -> None:
        self._machine = machine
        self._serde = serde
        self.on_leader_change: Callable[[QuorumView], object] | None = getattr(machine, "on_leader_change", None)
        """The state machine's method of that name, if it has one."""
        self._records_in_turn = 0

    async def on_commit(self, records: Sequence[Record]) -> None:
        """Apply the records of one batch, or of a part of it."""
        for record in records:
            self._apply(record)
            self._records_in_turn += 1
            if self._records_in_turn >= _RECORDS_A_TURN:
                self._records_in_turn = 0
                await trio.lowlevel.checkpoint()

    def _apply(self, record: Record) -> None:
        self._machine.apply(committed_of(record, self._serde))

    def save(self) -> Iterable[NewRecord | bytes]:
        return self._machine.save()

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        await self._machine.load(_one_by_one(records))


def committed_of(record: Record, serde: Serde[T]) -> Committed[T]:
    """Decode a record.  Raises SerdeError."""
    value = serde.decode(record.value or b"")
    return Committed(record.offset, record.timestamp_ms, value, record.key, record.headers, record.leader_epoch)


async def _one_by_one(records: AsyncIterator[Sequence[Record]]) -> AsyncIterator[Record]:
    async for some in records:
        for record in some:
            yield record
