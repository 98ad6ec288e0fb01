"""What has happened in a quorum: the events that its nodes tell, and the changes that were seen from here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from kraft_trio.client.claims import Told

KEPT: Final = 600
"""Events that are kept.  A browser that connects gets them all."""
MAX_TEXT: Final = 500
MAX_FIELDS: Final = 16
_PLAIN: Final = (bool, int, float, str, type(None))


@attrs.define
class _Seen:
    """What was last seen of one node."""

    problem: str | None = None
    epoch: int | None = None
    leader_id: int | None = None


class History:
    """Collects events from the answers of all nodes, each once.  Every event has a number, from 0 on."""

    def __init__(self, wall_clock_ms: Callable[[], int]) -> None:
        self._wall_clock_ms = wall_clock_ms
        self._events: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._told: dict[object, None] = {}
        self._seen: dict[object, _Seen] = {}
        self._next_number = 0

    def since(self, number: int) -> list[dict[str, Any]]:
        """The events with that number and higher ones, as they came in."""
        return [event for event in self._events if event["number"] >= number]

    def heard(self, told: Told) -> None:
        """Take what one node told, or that it told nothing."""
        claim = told.claim
        node = claim.endpoint if claim.node_id is None else claim.node_id
        events = told.status.get("events")
        for event in events if isinstance(events, list) else ():
            if isinstance(event, dict) and _is_whole(event.get("atMs")) and _is_whole(event.get("id")):
                self._add_told(node, event)
        before = self._seen.get(node)
        now = _Seen(claim.problem, claim.epoch, claim.leader_id)
        if claim.problem is not None and before is not None:
            now.epoch, now.leader_id = before.epoch, before.leader_id
        self._seen[node] = now
        if before is None and claim.problem is None:
            self._add(node, "first seen", epoch=claim.epoch, leader_id=claim.leader_id)
        elif (before is None or before.problem is None) and claim.problem is not None:
            left = {} if claim.free_bytes is None else {"free_bytes": claim.free_bytes}
            self._add(node, "unreachable", problem=claim.problem, epoch=now.epoch, leader_id=now.leader_id, **left)
        elif before is not None and before.problem is not None and claim.problem is None:
            self._add(node, "reachable", epoch=claim.epoch, leader_id=claim.leader_id)
        elif before is not None and (before.epoch, before.leader_id) != (now.epoch, now.leader_id):
            self._add(node, "claim", epoch=claim.epoch, leader_id=claim.leader_id)

    def _add_told(self, node: object, event: Mapping[str, Any]) -> None:
        key = (node, event["atMs"], event["id"])
        if key in self._told:
            return
        self._told[key] = None
        if len(self._told) > 4 * KEPT:
            del self._told[next(iter(self._told))]
        plain = {
            str(name)[:MAX_TEXT]: value[:MAX_TEXT] if isinstance(value, str) else value
            for name, value in list(event.items())[:MAX_FIELDS]
            if isinstance(value, _PLAIN)
        }
        self._append({**plain, "node": node, "isTold": True})

    def _add(self, node: object, what: str, **fields: Any) -> None:
        """Something that the node did not tell: it was seen from here."""
        self._append({"atMs": self._wall_clock_ms(), "what": what, "node": node, "isTold": False, **fields})

    def _append(self, event: dict[str, Any]) -> None:
        self._events.append({**event, "number": self._next_number})
        self._next_number += 1


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
