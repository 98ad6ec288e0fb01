"""What every invariant is: a number, the rule in words, and the events at which it could break."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from kraft_trio.simulation.violation import Violation

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.facts import Evidence
    from kraft_trio.simulation.facts.history import Operation
    from kraft_trio.simulation.facts.replica import Entry, Replica
    from kraft_trio.simulation.network.message import Message
    from kraft_trio.storage.batch import Record


class Invariant:
    """One rule that must hold in every step of a run; its docstring gives the argument why it must.

    A subclass overrides the hooks that could break its rule.  Each is called in the very step in which the event
    happens, after the replica's facts and the evidence have taken it in; it must neither block nor fail, and what it
    does must take constant time, or time in proportion to what has changed.  Offsets are exclusive ends unless said
    otherwise.
    """

    number: ClassVar[int]
    title: ClassVar[str]

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        self.cluster = cluster
        self.evidence = evidence

    def violated(self, fact: str, other: str, nodes: Iterable[int] = ()) -> None:
        """The two facts contradict each other: the run ends with them."""
        concerned = tuple(sorted(set(nodes)))
        self.cluster.violate(Violation(self.number, self.title, self.cluster.now_s, (fact, other), concerned))

    def started(self, replica: Replica) -> None:
        """A process has opened the replica's directory, and nothing of it runs yet."""

    def ended(self, replica: Replica) -> None:
        """The replica's process is no more."""

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        """Its process has published a view; `old` is None for the first one of a process.

        The role may be the same as before, where only the voters are others.
        """

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        """Entries, one at least, now end its log; `by_leader`: they are its own and no copies."""

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        """Its log now ends at `offset`, and lacks these entries, in the order in which they stood."""

    def synced(self, replica: Replica, end_offset: int) -> None:
        """Its process takes everything below `end_offset` for durable."""

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        """Its process takes everything below `new` for committed; `old` is None where it knew of nothing."""

    def applied(self, replica: Replica, base_offset: int, records: Sequence[Record]) -> None:
        """Its state machine is given the records, one at least, of the batch that begins at `base_offset`."""

    def loaded(self, replica: Replica, end_offset: int) -> None:
        """Its state machine is given a snapshot that ends there (exclusive), in place of what it has."""

    def restored(self, replica: Replica, end_offset: int, digest: bytes) -> None:
        """Its state machine has been given values with this digest, in all, by a snapshot that ends there."""

    def trimmed(self, replica: Replica, start_offset: int) -> None:
        """Its log now begins there, by a trim or as a snapshot has taken its place."""

    def message_sent(self, message: Message) -> None:
        """A whole frame was sent."""

    def message_delivered(self, message: Message) -> None:
        """The process at the other end has read the whole of it."""

    def operation(self, operation: Operation) -> None:
        """A client has invoked an operation, or learned how it ended."""

    def finished(self) -> None:
        """The faults are over, everything runs and was given the time to become alike."""
