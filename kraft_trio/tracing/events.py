"""What happened, event by event: for a person, for the digest that proves two simulated runs alike, for Spark.

docs/TRACE.md describes the events and their details.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs
import msgpack

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView

Detail = int | float | str | bool | list["Detail"] | None

REMEMBERED: Final = 400
"""How many of the last events of each node are kept for the report of a violation."""


@attrs.frozen
class NodeState:
    """What a node says of itself at the moment of an event.  Offsets are exclusive ends; None where unknown."""

    epoch: int | None = None
    role: str | None = None
    leader: int | None = None
    log_end: int | None = None
    synced_end: int | None = None
    high_watermark: int | None = None
    voters: tuple[int, ...] | None = None

    @classmethod
    def of(cls, view: QuorumView | None, log_end: int, synced_end: int, high_watermark: int | None) -> NodeState:
        """What it has published last, if anything, and how far its log is."""
        if view is None:
            return cls(log_end=log_end, synced_end=synced_end, high_watermark=high_watermark)
        role = type(view.role).__name__
        return cls(view.epoch, role, view.leader_id, log_end, synced_end, high_watermark, view.voters.ids)


NO_STATE: Final = NodeState()


@attrs.frozen
class TraceEvent:
    """One event.  `node` is None where the world or a client acts; the seven fields after `kind` are the node's."""

    sequence: int
    """Its place in the run, from 0 on."""
    time_us: int
    """Virtual time since the run began, in microseconds."""
    node: int | None
    kind: str
    epoch: int | None
    role: str | None
    leader: int | None
    log_end: int | None
    """Exclusive, as the next two."""
    synced_end: int | None
    high_watermark: int | None
    voters: tuple[int, ...] | None
    """Ids of the newest voter set in the node's log."""
    cause: str
    """Why, for a human."""
    details: Mapping[str, Detail]
    """What else there is to say, by the kind of event."""

    def __str__(self) -> str:
        who = "world" if self.node is None else f"node {self.node}"
        state = ""
        if self.node is not None and self.role is not None:
            state = f" [{self.role} epoch {self.epoch}, log {self.log_end}, high watermark {self.high_watermark}]"
        details = " ".join(f"{name}={value}" for name, value in self.details.items())
        cause = f" {self.cause}" if self.cause else ""
        return f"{self.time_us / 1e6:11.6f} s {who}{state} {self.kind}:{cause}{' ' + details if details else ''}"


def event_of(
    sequence: int,
    time_us: int,
    node: int | None,
    kind: str,
    state: NodeState,
    cause: str,
    details: Mapping[str, object],
) -> TraceEvent:
    """The event with what the node says of itself, and with details made plain."""
    return TraceEvent(
        sequence,
        time_us,
        node,
        kind,
        state.epoch,
        state.role,
        state.leader,
        state.log_end,
        state.synced_end,
        state.high_watermark,
        state.voters,
        cause,
        {name: plain(value) for name, value in details.items()},
    )


_STATE_OF: Final = attrgetter("epoch", "role", "leader", "log_end", "synced_end", "high_watermark", "voters")


class Trace:
    """Takes the events of one run, in order; keeps the last ones of each node and a digest of all."""

    def __init__(self, now_us: Callable[[], int], state_of: Callable[[int], NodeState]) -> None:
        self._now_us = now_us
        self._state_of = state_of
        self._sequence = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._last: dict[int | None, deque[TraceEvent]] = {}
        self.listeners: list[Callable[[TraceEvent], object]] = []
        """Each is called with every event, in the step in which it happens."""
        self.records_messages = False
        """Whether each message on the network becomes an event of kind "message" too."""

    @property
    def count(self) -> int:
        """How many events there have been."""
        return self._sequence

    def record(self, kind: str, *, node: int | None = None, cause: str = "", **details: object) -> TraceEvent:
        """Note that something has happened now."""
        return self.note(kind, node, cause, details)

    def note(self, kind: str, node: int | None, cause: str, details: Mapping[str, object]) -> TraceEvent:
        """As `record`, for details of any name."""
        state = NO_STATE if node is None else self._state_of(node)
        event = event_of(self._sequence, self._now_us(), node, kind, state, cause, details)
        self._sequence += 1
        if kind != "message":
            self.fold(msgpack.packb((event.time_us, node, kind, cause, event.details, *_STATE_OF(event))))
        last = self._last.get(node)
        if last is None:
            last = self._last[node] = deque(maxlen=REMEMBERED)
        last.append(event)
        for listener in self.listeners:
            listener(event)
        return event

    def fold(self, data: bytes) -> None:
        """Let the digest cover `data` too: something that happened and is no event."""
        self._digest.update(data)

    def digest(self) -> str:
        """Hexadecimal; equal for two runs exactly where everything in them was the same, recorded messages aside."""
        return self._digest.hexdigest()

    def last_events(self, nodes: Collection[int | None], count: int) -> list[TraceEvent]:
        """The newest events of those nodes and of the world, oldest first, `count` at most."""
        chosen = [event for node in sorted({*nodes, None}, key=str) for event in self._last.get(node, ())]
        return sorted(chosen, key=lambda event: event.sequence)[-count:]


def plain(value: object) -> Detail:
    """As a trace can hold it: numbers and text as they are, sequences as lists, anything else as its text."""
    if value is None or isinstance(value, int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
