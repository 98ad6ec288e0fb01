"""Finds out, on the leader, that two observers have one id."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.actors.shared_node_id import SharedNodeId
from kraft_trio.protocol.types import ReplicaKey

MAX_IDS: Final = 1000
COMEBACKS: Final = 4
"""So often in a row, one fetches again after the other.  A late Fetch of a replaced disk makes two of these."""


@attrs.define
class _Observers:
    """Those that have one id."""

    latest: ReplicaKey
    """Which of them has fetched last."""
    latest_s: float
    other: ReplicaKey | None = None
    """Which of them has fetched before that one."""
    other_s: float = 0.0
    comebacks: int = 0


class SharedObserverIds:
    """Notes the Fetches of observers in one leader's epoch, and logs when two with one id fetch by turns.

    A node on a new disk fetches with another directory id, too, but its old incarnation does not come back.
    """

    def __init__(self, node_id: int, within_s: float) -> None:
        """`within_s`: for how long an observer that runs may be silent."""
        self._shared_id = SharedNodeId(node_id)
        self._within_s = within_s
        self._by_id: dict[int, _Observers] = {}

    def fetched(self, observer: ReplicaKey, now_s: float) -> None:
        known = self._by_id.get(observer.id)
        if known is None:
            if len(self._by_id) >= MAX_IDS:
                del self._by_id[next(iter(self._by_id))]
            self._by_id[observer.id] = _Observers(observer, now_s)
            return
        if observer != known.latest:
            comes_back = observer == known.other and now_s - known.other_s < self._within_s
            known.comebacks = known.comebacks + 1 if comes_back else 0
            known.latest, known.other, known.other_s = observer, known.latest, known.latest_s
            if known.comebacks >= COMEBACKS:
                self._shared_id.both_fetch(observer, known.other)
        known.latest_s = now_s
