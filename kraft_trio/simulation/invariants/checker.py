"""Asks every invariant at every event that could break it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kraft_trio.messages import QuorumView
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.history import Operation
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.invariants import INVARIANTS, Invariant
from kraft_trio.simulation.invariants.invariant import Reporter
from kraft_trio.simulation.network.message import Message
from kraft_trio.storage.batches.batch import Record


class Checker:
    """The invariants of one run.  The world tells it of each event in the step in which the event happens.

    It tells the facts first, then the invariants that override the hook of that event.  Its methods are the hooks of
    Invariant, with the same parameters.
    """

    def __init__(self, facts: RunFacts, report: Reporter, invariants: Iterable[type[Invariant]] = INVARIANTS) -> None:
        self._facts = facts
        self.invariants = tuple(invariant(facts, report) for invariant in invariants)
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
        self._message_sent_of: dict[tuple[int, bool], list[Invariant]] = {}
        """By API key and whether it is a request, those that look at such messages."""
        self._message_delivered = self._overriding(Invariant.message_delivered)
        self._operation = self._overriding(Invariant.operation)
        self._finished = self._overriding(Invariant.finished)

    def _overriding(self, hook: Callable[..., None]) -> list[Invariant]:
        name = hook.__name__
        return [invariant for invariant in self.invariants if getattr(type(invariant), name) is not hook]

    def mute(self) -> None:
        """Tell the invariants nothing from now on.  The facts still hear of everything."""
        for name in [name for name, told in vars(self).items() if isinstance(told, list)]:
            setattr(self, name, [])
        self._message_sent_of = {}

    def started(self, replica: Replica) -> None:
        self._facts.started(replica)
        for invariant in self._started:
            invariant.started(replica)

    def ended(self, replica: Replica) -> None:
        for invariant in self._ended:
            invariant.ended(replica)

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        self._facts.role_changed(replica, old, new)
        for invariant in self._role_changed:
            invariant.role_changed(replica, old, new)
        self._facts.role_was_checked(new)

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        self._facts.appended(replica, entries)
        for invariant in self._appended:
            invariant.appended(replica, entries, by_leader)

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        self._facts.truncated(replica, offset)
        for invariant in self._truncated:
            invariant.truncated(replica, offset, removed)

    def replaced(self, replica: Replica, end_offset: int, removed: Sequence[Entry]) -> None:
        """A snapshot that ends there has replaced its log; `removed` are the entries that were not committed."""
        self._facts.replaced(replica)
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
        self._facts.high_watermark_advanced(replica, new)
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
        self._facts.message_sent(message)
        kind = message.api_key, message.is_request
        looking = self._message_sent_of.get(kind)
        if looking is None:
            looking = [each for each in self._message_sent if each.looks_at(kind[0], is_request=kind[1])]
            self._message_sent_of[kind] = looking
        for invariant in looking:
            invariant.message_sent(message)

    def message_delivered(self, message: Message) -> None:
        self._facts.message_delivered(message)
        for invariant in self._message_delivered:
            invariant.message_delivered(message)

    def operation(self, operation: Operation) -> None:
        for invariant in self._operation:
            invariant.operation(operation)

    def finished(self) -> None:
        """Call it once, after the faults are over and every node has had time to catch up."""
        for invariant in self._finished:
            invariant.finished()
