"""Finds out, on the leader, that two processes fetch as one replica: two observers with one id, or two copies of a
directory."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.actors.shared_node_id import SharedNodeId
from kraft_trio.protocol.types import ReplicaKey

MAX_IDS: Final = 1000
COMEBACKS: Final = 4
"""So often in a row, one fetches again after the other.  A late Fetch of a replaced disk makes two of these."""


@attrs.frozen
class _Process:
    """One process, as far as its Fetches tell it from another."""

    key: ReplicaKey
    connection: object = attrs.field(eq=id)


@attrs.define
class _Sharing:
    """The processes that have one id."""

    latest: _Process
    """Which of them has fetched last."""
    latest_s: float
    other: _Process | None = None
    """Which of them has fetched before that one."""
    other_s: float = 0.0
    comebacks: int = 0


class SharedReplicas:
    """Notes the Fetches of replicas in one leader's epoch, and logs when two processes with one id fetch by turns.

    A node on a new disk fetches with another directory id, too, but its old incarnation does not come back.  Nor does
    a connection that a process has given up for another one.
    """

    def __init__(self, node_id: int, within_s: float) -> None:
        """`within_s`: for how long a replica that runs may be silent."""
        self._shared_id = SharedNodeId(node_id)
        self._within_s = within_s
        self._by_id: dict[int, _Sharing] = {}

    def fetched(self, replica: ReplicaKey, now_s: float, connection: object = None, waiting_on: object = None) -> bool:
        """Note a Fetch on `connection`, while another Fetch of the same replica waits on the connection `waiting_on`.

        A process sends no Fetch while it waits for the response to another one, unless it has given that up.  Returns
        whether two processes fetch as this replica.
        """
        process = _Process(replica, connection)
        known = self._by_id.get(replica.id)
        if known is None:
            if len(self._by_id) >= MAX_IDS:
                del self._by_id[next(iter(self._by_id))]
            known = self._by_id[replica.id] = _Sharing(process, now_s)
        elif process != known.latest:
            is_open = replica == known.latest.key and waiting_on in (None, connection)
            if is_open and process != known.other:
                known.latest = process  # It has connected anew, as far as one can tell.
            else:
                comes_back = process == known.other and now_s - known.other_s < self._within_s
                known.comebacks = known.comebacks + (not is_open) if comes_back else 0
                known.latest, known.other, known.other_s = process, known.latest, known.latest_s
                if known.comebacks >= COMEBACKS:
                    self._shared_id.both_fetch(replica, known.other.key)
        known.latest_s = now_s
        return known.comebacks >= COMEBACKS and now_s - known.other_s < self._within_s
