"""What an application does so that the log need not keep everything: it saves its state, and loads it again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from kraft_trio.storage.batch import NewRecord, Record


class StateSnapshots(Protocol):
    """The snapshots of a replicated state machine, beside its `on_commit` (KIP-630).

    Neither is called while `on_commit` or the other one is awaited.  Every replica saves by itself: the same records
    must give the same snapshot everywhere, in the same order.
    """

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        """Put the state that is in the snapshot in place of the present one.

        `records` gives what `save` gave, on this replica or another, a batch at a time; their offsets count from the
        snapshot's beginning.  `on_commit` goes on with the records from `end_offset` (inclusive) on.
        """
        ...

    def save(self) -> Iterable[NewRecord | bytes]:
        """The state as it is now, as records; bytes are a record with that value and nothing else, and written fastest.

        They are asked for one by one, and written while `on_commit` goes on being called: what is given must be the
        state at the time of this call (a generator over a copy, or over data that is never changed in place).
        """
        ...


class StateMachine(StateSnapshots, Protocol):
    """What is given the committed records, and has its state saved and loaded."""

    async def on_commit(self, records: Sequence[Record]) -> None:
        """Take in the records of one committed batch; batches come in the order of the log, each once."""
        ...
