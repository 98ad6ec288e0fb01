"""The events of a node, for readers over HTTP: the lines that it logs about roles, votes, voters and snapshots."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import attrs
import trio

SHARED_ID: Final = "two nodes share one id"
KINDS: Final = {
    "role": "role",
    "vote requested": "vote",
    "vote answered": "vote",
    "voters in force": "voters",
    "voter change appended": "voters",
    "voter change answered": "voters",
    "reassignment": "voters",
    SHARED_ID: "voters",
    "snapshot taken": "snapshot",
    "fetching a snapshot": "snapshot",
    "snapshot in place of the log": "snapshot",
    "trimmed": "snapshot",
    "committed records truncated": "disk",
    "truncation of committed records refused": "disk",
    "disk full": "disk",
    "storage poisoned": "disk",
}
"""The kind of event for each line of the log that is one."""
KEPT: Final = 100
"""A new reader gets so many of the newest events first."""
TOLD: Final = 60
"""A node's status has so many of the newest events."""
MAX_WAITING: Final = 256
"""Events that may wait for one reader.  A reader that lags further is cut off."""
MAX_TEXT: Final = 500
"""Characters of one field, which may hold a peer's words."""


@attrs.define(eq=False)
class Reader:
    """One reader's queue.  `scope` is cancelled when the reader is too slow."""

    arrivals: trio.MemoryReceiveChannel[bytes]
    queue: trio.MemorySendChannel[bytes]
    scope: trio.CancelScope


class EventFeed:
    """Gives each event to all readers without waiting for any."""

    def __init__(self, wall_clock_ms: Callable[[], int]) -> None:
        self._wall_clock_ms = wall_clock_ms
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._newest: deque[dict[str, Any]] = deque(maxlen=TOLD)
        self._shared_id: dict[str, Any] | None = None
        self._readers: set[Reader] = set()
        self._next_id = 0

    @property
    def readers(self) -> int:
        return len(self._readers)

    def newest(self) -> list[dict[str, Any]]:
        """The newest events, oldest first.  `id` counts those of this process.

        The newest SHARED_ID comes first if the others have pushed it out.  It is said once a minute, and the two
        processes change the voters' endpoints in turn meanwhile.
        """
        told = list(self._newest)
        if self._shared_id is not None and self._shared_id["id"] < told[0]["id"]:
            told.insert(0, self._shared_id)
        return told

    def heard(self, line: str, fields: Mapping[str, Any]) -> None:
        """Take one line of the node's log.  Never blocks or fails."""
        kind = KINDS.get(line)
        if kind is None:
            return
        told = {
            name: value if isinstance(value, int | None) else str(value)[:MAX_TEXT] for name, value in fields.items()
        }
        fields_told = {"atMs": self._wall_clock_ms(), "what": line, **told}
        event = f"id: {self._next_id}\nevent: {kind}\ndata: {json.dumps(fields_told)}\n\n".encode()
        self._newest.append({"id": self._next_id, **fields_told})
        if line == SHARED_ID:
            self._shared_id = self._newest[-1]
        self._next_id += 1
        self._kept.append(event)
        for reader in self._readers:
            try:
                reader.queue.send_nowait(event)
            except trio.WouldBlock:
                reader.scope.cancel()

    @contextmanager
    def reading(self) -> Iterator[trio.MemoryReceiveChannel[bytes]]:
        """The events: those that are kept, and then each new one.  The block is cancelled if its reader is too slow."""
        queue, arrivals = trio.open_memory_channel[bytes](MAX_WAITING)
        for event in self._kept:
            queue.send_nowait(event)
        with queue, arrivals, trio.CancelScope() as scope:
            reader = Reader(arrivals, queue, scope)
            self._readers.add(reader)
            try:
                yield arrivals
            finally:
                self._readers.discard(reader)
