"""The protocols of a state machine: it applies records, and saves and loads its state."""

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
        """Replace the present state by that of a snapshot.

        `records` has what `save` returned on this replica or another, one batch at a time.  Its offsets count from the
        snapshot's start.  `on_commit` continues with the record at `end_offset` (inclusive).
        """
        ...

    def save(self) -> Iterable[NewRecord | bytes]:
        """Return the present state as records.  Plain bytes are a record with only that value, and the fastest.

        The node takes the records one by one while it goes on calling `on_commit`.  They must be the state at the time
        of this call, so return a generator over a copy, or over data that is never changed in place.
        """
        ...


class StateMachine(StateSnapshots, Protocol):
    """Applies committed records to a state, and saves and loads that state."""

    async def on_commit(self, records: Sequence[Record]) -> None:
        """Apply the records of one committed batch.  Called once for each record, in log order."""
        ...
