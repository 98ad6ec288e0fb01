"""Asks every invariant at every event that could break it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants import INVARIANTS, Invariant

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.history import Operation
    from kraft_trio.simulation.facts.replica import Entry, Replica
    from kraft_trio.simulation.network.message import Message
    from kraft_trio.storage.batch import Record


class Checker:
    """The invariants of one run.  The Cluster tells it of each event, in the step in which it happens.

    Which invariant overrides which hook is found out once: one that does not look at an event costs nothing there.
    The methods are those of Invariant, and take what those take.
    """

    def __init__(self, cluster: Cluster, invariants: Iterable[type[Invariant]] = INVARIANTS) -> None:
        self.evidence = Evidence(cluster)
        self.invariants = tuple(invariant(cluster, self.evidence) for invariant in invariants)
        self.knows_every_write = False
        """Whether every value that clients append is registered as an Operation: then any other one is a violation."""
        self._started = self._overriding(Invariant.started)
        self._ended = self._overriding(Invariant.ended)
        self._role_changed = self._overriding(Invariant.role_changed)
        self._appended = self._overriding(Invariant.appended)
        self._truncated = self._overriding(Invariant.truncated)
        self._synced = self._overriding(Invariant.synced)
        self._high_watermark_advanced = self._overriding(Invariant.high_watermark_advanced)
        self._applied = self._overriding(Invariant.applied)
        self._loaded = self._overriding(Invariant.loaded)
        self._restored = self._overriding(Invariant.restored)
        self._trimmed = self._overriding(Invariant.trimmed)
        self._message_sent = self._overriding(Invariant.message_sent)
        self._message_delivered = self._overriding(Invariant.message_delivered)
        self._operation = self._overriding(Invariant.operation)
        self._finished = self._overriding(Invariant.finished)

    def _overriding(self, hook: Callable[..., None]) -> list[Invariant]:
        name = hook.__name__
        return [invariant for invariant in self.invariants if getattr(type(invariant), name) is not hook]

    def started(self, replica: Replica) -> None:
        self.evidence.started(replica)
        for invariant in self._started:
            invariant.started(replica)

    def ended(self, replica: Replica) -> None:
        for invariant in self._ended:
            invariant.ended(replica)

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        self.evidence.role_changed(replica, old, new)
        for invariant in self._role_changed:
            invariant.role_changed(replica, old, new)
        self.evidence.role_was_checked(new)

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        self.evidence.appended(replica, entries)
        for invariant in self._appended:
            invariant.appended(replica, entries, by_leader)

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        self.evidence.truncated(replica, offset)
        for invariant in self._truncated:
            invariant.truncated(replica, offset, removed)

    def replaced(self, replica: Replica, end_offset: int, removed: Sequence[Entry]) -> None:
        """A snapshot that ends there has taken its log's place; `removed` are the entries that were not committed."""
        self.evidence.replaced(replica)
        for invariant in self._truncated:
            invariant.truncated(replica, end_offset, removed)
        self.trimmed(replica, end_offset)

    def trimmed(self, replica: Replica, start_offset: int) -> None:
        for invariant in self._trimmed:
            invariant.trimmed(replica, start_offset)

    def synced(self, replica: Replica, end_offset: int) -> None:
        for invariant in self._synced:
            invariant.synced(replica, end_offset)

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        self.evidence.high_watermark_advanced(replica, new)
        for invariant in self._high_watermark_advanced:
            invariant.high_watermark_advanced(replica, old, new)

    def applied(self, replica: Replica, base_offset: int, records: Sequence[Record]) -> None:
        for invariant in self._applied:
            invariant.applied(replica, base_offset, records)

    def loaded(self, replica: Replica, end_offset: int) -> None:
        for invariant in self._loaded:
            invariant.loaded(replica, end_offset)

    def restored(self, replica: Replica, end_offset: int, digest: bytes) -> None:
        for invariant in self._restored:
            invariant.restored(replica, end_offset, digest)

    def message_sent(self, message: Message) -> None:
        self.evidence.message_sent(message)
        for invariant in self._message_sent:
            invariant.message_sent(message)

    def message_delivered(self, message: Message) -> None:
        self.evidence.message_delivered(message)
        for invariant in self._message_delivered:
            invariant.message_delivered(message)

    def operation(self, operation: Operation) -> None:
        for invariant in self._operation:
            invariant.operation(operation)

    def finished(self) -> None:
        """To be called once the faults are over and every node was given the time to catch up."""
        for invariant in self._finished:
            invariant.finished()
