"""Events of a run: for people, for Spark, and for the digest that shows that two simulated runs were equal.

docs/reference/traces.md describes the events and their details.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import msgpack

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView

Detail = int | float | str | bool | list["Detail"] | None

REMEMBERED: Final = 400
"""The number of events of each node that are kept for the report of a violation."""


class NodeState(NamedTuple):
    """The state of a node at the moment of an event.  Offsets are exclusive ends; None means unknown."""

    epoch: int | None = None
    role: str | None = None
    leader: int | None = None
    log_end: int | None = None
    synced_end: int | None = None
    high_watermark: int | None = None
    voters: tuple[int, ...] | None = None

    @classmethod
    def of(cls, view: QuorumView | None, log_end: int, synced_end: int, high_watermark: int | None) -> NodeState:
        """The state from the view that the node has published, if any, and the offsets of its log."""
        if view is None:
            return cls(log_end=log_end, synced_end=synced_end, high_watermark=high_watermark)
        role = type(view.role).__name__
        return cls(view.epoch, role, view.leader_id, log_end, synced_end, high_watermark, view.voters.ids)


NO_STATE: Final = NodeState()

_PLAIN: Final = frozenset({int, float, str, bool, type(None)})
"""Types of details that a trace stores as they are."""


@attrs.frozen
class TraceEvent:
    """One event.  `node` is None for an event of the world or a client.  `epoch` to `voters` are the node's state."""

    sequence: int
    """The number of the event in its run, from 0 on."""
    time_us: int
    """Virtual time since the run began, in microseconds."""
    node: int | None
    kind: str
    epoch: int | None
    role: str | None
    leader: int | None
    log_end: int | None
    """Exclusive, like the next two offsets."""
    synced_end: int | None
    high_watermark: int | None
    voters: tuple[int, ...] | None
    """Ids of the newest voter set in the node's log."""
    cause: str
    """The reason, for people."""
    details: Mapping[str, Detail]
    """Further values, which depend on the kind of event."""

    def __str__(self) -> str:
        who = "world" if self.node is None else f"node {self.node}"
        state = ""
        if self.node is not None and self.role is not None:
            state = f" [{self.role} epoch {self.epoch}, log {self.log_end}, high watermark {self.high_watermark}]"
        details = " ".join(f"{name}={_text(value)}" for name, value in self.details.items())
        cause = f" {self.cause}" if self.cause else ""
        line = f"{self.time_us / 1e6:11.6f} s {who}{state} {self.kind}:{cause}{' ' + details if details else ''}"
        return line if line.isprintable() else "".join(map(_printable, line))


def _text(value: Detail) -> str:
    try:
        return str(value)
    except RecursionError:  # a file may hold anything
        return "…"


def _printable(character: str) -> str:
    """Peers' words must neither begin a line nor command a terminal."""
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def event_of(
    sequence: int,
    time_us: int,
    node: int | None,
    kind: str,
    state: NodeState,
    cause: str,
    details: Mapping[str, object],
) -> TraceEvent:
    """Make an event from a node's state and from details of any type."""
    return TraceEvent(sequence, time_us, node, kind, *state, cause, _plain_details(details))


def _plain_details(details: Mapping[str, object]) -> dict[str, Detail]:
    # Most values are plain, and none of them costs a call.
    return {
        name: value if type(value) in _PLAIN else plain(value)  # type: ignore[misc]
        for name, value in details.items()
    }


class Trace:
    """Records the events of one run, in order.  Keeps the last events of each node, and a digest of all events."""

    def __init__(self, now_us: Callable[[], int], state_of: Callable[[int], NodeState]) -> None:
        self._now_us = now_us
        self._state_of = state_of
        self._sequence = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self.fold: Final[Callable[[bytes], object]] = self._digest.update
        """Lets the digest also cover these bytes, for things that happen and are not events."""
        self._pack: Callable[[object], bytes] = msgpack.Packer().pack
        self._last: dict[int | None, deque[tuple[Any, ...]]] = {}
        """By node, the fields of its last events.  Few of them are ever read, so they are no events yet."""
        self.listeners: list[Callable[[TraceEvent], object]] = []
        """Each listener is called with every event, in the step in which it happens."""
        self.records_messages = False
        """Whether each message on the network also becomes an event, of kind "message"."""

    @property
    def count(self) -> int:
        """The number of events so far."""
        return self._sequence

    def record(self, kind: str, *, node: int | None = None, cause: str = "", **details: object) -> None:
        """Record an event that happens now."""
        self.note(kind, node, cause, details)

    def note(self, kind: str, node: int | None, cause: str, details: Mapping[str, object]) -> None:
        """Like `record`, for details of any name."""
        state = NO_STATE if node is None else self._state_of(node)
        time_us = self._now_us()
        plain_details = _plain_details(details)
        fields = (self._sequence, time_us, node, kind, *state, cause, plain_details)
        self._sequence += 1
        if kind != "message":
            self._digest.update(self._pack((time_us, node, kind, cause, plain_details, *state)))
        last = self._last.get(node)
        if last is None:
            last = self._last[node] = deque(maxlen=REMEMBERED)
        last.append(fields)
        if self.listeners:
            event = TraceEvent(*fields)
            for listener in self.listeners:
                listener(event)

    def digest(self) -> str:
        """The digest in hexadecimal.  Two runs have equal digests if all events were equal, apart from messages."""
        return self._digest.hexdigest()

    def last_events(self, nodes: Collection[int | None], count: int) -> list[TraceEvent]:
        """At most `count` of the newest events of those nodes and of the world, oldest first."""
        chosen = [fields for node in {*nodes, None} for fields in self._last.get(node, ())]
        return [TraceEvent(*fields) for fields in sorted(chosen, key=itemgetter(0))[-count:]]


def plain(value: object) -> Detail:
    """The value as a trace can store it: numbers, texts and lists stay, and anything else becomes its text."""
    if value is None or isinstance(value, (int, float, str)):
        return value
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
