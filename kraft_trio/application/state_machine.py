"""The protocols of a state machine: it applies records, and saves and loads its state."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Generic, Protocol

import attrs
from typing_extensions import TypeVar

from kraft_trio.storage.batches.batch import NewRecord, Record, RecordHeaders

T_co = TypeVar("T_co", covariant=True, default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)
R_co = TypeVar("R_co", covariant=True, default=Any)


@attrs.frozen
class Committed(Generic[T_co]):
    """A committed value and its record; `timestamp_ms` is milliseconds since 1970."""

    offset: int
    timestamp_ms: int
    value: T_co
    key: bytes | None = None
    headers: RecordHeaders = ()
    epoch: int = -1
    """The epoch of the leader that appended the record."""


class StateMachine(Protocol[T_contra, R_co]):
    """Applies committed values to a state, each with a result, and saves and loads that state.

    A state machine may also have a method `on_leader_change(view: QuorumView) -> None`.  The node calls it when another
    node leads, or none, and when the epoch changes.

    It may have a method `apply_in_steps(record) -> Generator[None, None, Result] | None`.  The node calls it first, and
    calls `apply` if it returns None.  Else the node runs the generator to its end, and others where it yields.  It does
    what `apply` would do.  The call itself must change nothing.  Whether it returns None should depend on the record
    alone: the node may ask about the records of a small batch before it applies the first of them.
    And it may have a method `accepts(record: Committed[T]) -> bool`, whether a record may enter the log.  A node calls
    it for what it appends itself and, as the leader, for what clients and other nodes send.  The offset is -1 then, and
    so is a timestamp that is not chosen yet.  What the serde cannot decode is refused anyway.

    It may have a property `complaint: str | None`, which says what is wrong with its state, such as that it is full.
    `kraft metadata-quorum explain` and `/readyz?verbose` show it.
    """

    def apply(self, record: Committed[T_contra], /) -> R_co:
        """Apply one value, and return the result of `Node.execute`.  Called once for each, in log order.

        State and result must depend on the state before and on `record` alone, so that all replicas agree: not on
        clocks, randomness, files or the order of a set.  It must not take long, because the node waits meanwhile.

        Raise a CommandFailed, before any change, to refuse a command.  Any other exception ends the node, and comes out
        of `open_node` as it is.

        Nothing here can wait for a node, this one or another in the process: such a call raises RuntimeError.
        """
        ...

    def save(self) -> Iterable[NewRecord | bytes]:
        """Return the present state as records, equal on all replicas.  Bytes are a record with only that value.

        The node takes the records one by one while it keeps calling `apply`.  They must be the state at the time of
        this call, so return a generator over a copy, or over data that is never changed in place.
        """
        ...

    async def load(self, records: AsyncIterator[Record], /) -> None:
        """Replace the present state by that of a snapshot: what `save` returned on this replica or another.

        The offsets of these records mean nothing.
        """
        ...


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

        The node takes the records one by one while it keeps calling `on_commit`.  They must be the state at the time
        of this call, so return a generator over a copy, or over data that is never changed in place.
        """
        ...


class BatchStateMachine(StateSnapshots, Protocol):
    """A state machine without a serde and without results: it gets whole batches of encoded records."""

    async def on_commit(self, records: Sequence[Record]) -> None:
        """Apply the records of one committed batch.  Called once for each record, in log order."""
        ...


def what_is_wrong_with(machine: object) -> str | None:
    """Why an object is neither a StateMachine nor a BatchStateMachine, as a clause; None if it is one of them."""
    if isinstance(machine, type):
        return f"which is the class {machine.__name__}, not an instance of it"
    is_batch = hasattr(machine, "on_commit") and not hasattr(machine, "apply")
    waiting, others = (["on_commit", "load"], ["save"]) if is_batch else (["load"], ["apply", "save"])
    methods = {name: getattr(machine, name, None) for name in (*waiting, *others)}
    missing = sorted(name for name, method in methods.items() if not callable(method))
    if missing:
        return f"which has no method {', '.join(missing)}"
    unlike = [name for name in waiting if not inspect.iscoroutinefunction(methods[name])]
    if unlike:
        return f"whose {' and '.join(unlike)} must be async"
    optional = ("on_leader_change", "accepts")
    methods |= {name: getattr(machine, name, None) for name in optional}
    unlike = [name for name in (*others, *optional) if inspect.iscoroutinefunction(methods[name])]
    return f"whose {' and '.join(unlike)} must not be async" if unlike else None
