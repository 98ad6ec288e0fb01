"""The base of every invariant: a number, the rule in words, and the events at which it could break."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar, Protocol

from kraft_trio.messages import QuorumView
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.history import Operation
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.network.message import Message
from kraft_trio.storage.batches.batch import Record


class Reporter(Protocol):
    """Ends the run with a violation, which happens now."""

    def __call__(
        self, title: str, facts: tuple[str, ...], nodes: Collection[int] = (), *, invariant: int = 0
    ) -> object: ...


class Invariant:
    """One rule that must hold in every step of a run; its docstring argues why it must.

    A subclass overrides the hooks of the events that could break its rule.  A hook is called in the step in which the
    event happens, after the facts have taken it in.  It must neither block nor raise, and may take constant time or
    time in proportion to what has changed.  Offsets are exclusive ends unless they say otherwise.
    """

    number: ClassVar[int]
    title: ClassVar[str]

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        self.facts = facts
        self.report = report

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        """Whether `message_sent` looks at such messages.  The checker asks once for each kind."""
        return True

    def violated(self, fact: str, other: str, nodes: Iterable[int] = ()) -> None:
        """The two facts contradict each other: the run ends with them."""
        self.report(self.title, (fact, other), tuple(sorted(set(nodes))), invariant=self.number)

    def started(self, replica: Replica) -> None:
        """A process has opened the replica's directory, and none of its tasks runs yet."""

    def ended(self, replica: Replica) -> None:
        """The replica's process has ended."""

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        """Its process has published a view; `old` is None for the first one of a process.

        The role may be the same as before, with other voters.
        """

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        """At least one entry was added to its log.  With `by_leader`, it made them and did not fetch them."""

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        """Its log now ends at `offset`; `removed` are the entries that it lost, in log order."""

    def synced(self, replica: Replica, end_offset: int) -> None:
        """Its process considers everything below `end_offset` durable."""

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        """Its process considers everything below `new` committed; `old` is None if it knew no high watermark."""

    def applied(self, replica: Replica, base_offset: int, records: Sequence[Record]) -> None:
        """Its state machine is given at least one record of the batch that begins at `base_offset`."""

    def loaded(self, replica: Replica, end_offset: int) -> None:
        """Its state machine is given a snapshot that ends there, which replaces its state."""

    def restored(self, replica: Replica, end_offset: int, digest: bytes) -> None:
        """A snapshot that ends there has given its state machine the values with this digest."""

    def trimmed(self, replica: Replica, start_offset: int) -> None:
        """Its log now begins there, after a trim or because a snapshot has replaced it."""

    def message_sent(self, message: Message) -> None:
        """A whole frame was sent, of a kind that `looks_at` accepts."""

    def message_delivered(self, message: Message) -> None:
        """The receiving process has read the last byte of a frame."""

    def operation(self, operation: Operation) -> None:
        """A client has invoked an operation, or learned how it ended."""

    def finished(self) -> None:
        """The faults are over, and all nodes run and have had time to reach the same state."""
