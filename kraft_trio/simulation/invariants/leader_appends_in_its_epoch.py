from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.roles import Follower, Leader
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.storage.batch import check_crc, peek_header

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Entry, Replica


class LeaderAppendsInItsEpoch(Invariant):
    """The epoch of a record tells who made it and orders it against all others; so a leader writes its own epoch into
    what it appends and takes nothing back, and nobody else makes records: a follower has of each epoch, up to its own,
    what the leader of that epoch appended, and nothing more (KIP-595 "Leader")."""

    number = 6
    title = "a leader only appends, in its own epoch, and only leaders create records"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._made: set[bytes] = set()
        """Chains of the entries that leaders have appended."""
        self._leaders: dict[int, ReplicaKey] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if isinstance(new.role, Leader):
            self._leaders.setdefault(new.epoch, replica.key)

    def started(self, replica: Replica) -> None:
        """What it recovered was made by leaders too, be it by itself in the moment in which it crashed."""
        for entry in reversed(replica.entries):
            if entry.chain in self._made:
                break
            if self._leaders.get(entry.epoch) != replica.key or not _is_whole(replica, entry):
                fact = f"{replica.key} has recovered a batch of epoch {entry.epoch} at offset {entry.base_offset}"
                self.violated(fact, "no leader has made such a log up to there", (replica.key.id,))
                break
        self._made.update(entry.chain for entry in replica.entries[-1:])

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        node_id = replica.key.id
        view = replica.view
        role = "nobody yet" if view is None else str(view.role)
        for entry in entries:
            batch = f"a batch of epoch {entry.epoch} at offset {entry.base_offset}"
            if by_leader:
                if view is None or entry.epoch != view.epoch:
                    self.violated(f"{replica.key} is {role}", f"it makes {batch}", (node_id,))
                self._made.add(entry.chain)
                continue
            if view is None or not isinstance(view.role, Follower) or entry.epoch > view.epoch:
                self.violated(f"{replica.key} is {role}", f"it appends {batch}", (node_id,))
            if entry.chain not in self._made:
                self.violated(f"{replica.key} appends {batch}", "no leader has made such a log up to there", (node_id,))

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        view = replica.view
        if removed and (view is None or not isinstance(view.role, Follower)):
            role = "nobody yet" if view is None else str(view.role)
            fact = f"{replica.key} truncates its log to offset {offset}"
            self.violated(fact, f"it is {role}, and only a follower does", (replica.key.id,))


def _is_whole(replica: Replica, entry: Entry) -> bool:
    """Whether the batch is what somebody wrote, by its own checksum."""
    content = replica.machine.disk.peek(entry.path) or b""
    batch = content[entry.position : entry.position + entry.size]
    try:
        check_crc(batch, 0, peek_header(batch))
    except ProtocolError:
        return False
    return True
