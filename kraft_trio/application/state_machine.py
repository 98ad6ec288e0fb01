"""What an application does so that the log need not keep everything: it saves its state, and loads it again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from kraft_trio.storage.batch import NewRecord, Record


class StateSnapshots(Protocol):
    """Saves and loads the state that a node's `on_commit` builds (KIP-630).

    The node calls neither method while it awaits `on_commit` or the other method.  Each replica saves its own
    snapshots, and the same records must give the same snapshot, in the same order, on all of them.
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
    """Applies committed records to a state, and saves and loads that state."""

    async def on_commit(self, records: Sequence[Record]) -> None:
        """Apply the records of one committed batch.  Called once for each record, in log order."""
        ...
