"""Tells, as a trace, how stopped replicas may have come to what they have written.

Elections are those that the logs and quorum-state tell of.  Everything else happens as early as it can: followers
fetch all that they have in the end, and leaders commit it.  If the specification refuses that, the replicas have
votes, epochs, records or voter sets that the protocol does not make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from kraft_trio.tracing.events import NO_STATE, NodeState, TraceEvent, event_of
from scripts.trace_checking.steps import SKIPPED, NotTraceableError
from scripts.trace_checking.written import Replica, Written


def retold(replicas: Sequence[Replica]) -> list[TraceEvent]:
    """A trace of all of them, from blank directories on.

    Raises NotTraceableError if no replica has a log, or if an epoch does not begin with its leader.
    """
    told = _Retelling(replicas)
    for epoch in sorted({batch.epoch for replica in replicas for batch in replica.log}):
        told.epoch(epoch)
    for node in told.nodes.values():
        told.last_vote(node)
    return told.events


@attrs.define
class _Node:
    written: Replica
    epoch: int = 0
    role: str = "Unattached"
    leader: int | None = None
    """The leader of the epoch that it knows."""
    voted: str | None = None
    end: int = 0
    synced: int = 0
    hw: int = 0
    voters: tuple[int, ...] = ()

    @property
    def id(self) -> int:
        return self.written.id


class _Retelling:
    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.events: list[TraceEvent] = []
        self.nodes: Mapping[int, _Node] = {replica.id: _Node(replica) for replica in replicas}
        begins = [replica.log[0] for replica in replicas if replica.log]
        first = min(begins, key=lambda batch: batch.epoch, default=None)
        if first is None or first.leader_change is None:
            raise NotTraceableError("no log begins with the leader of its first epoch")
        initial = _ids(first.voters) or first.leader_change.voter_ids
        for node in self.nodes.values():
            # Only the initial voters know who they are, unless the set is static.
            node.voters = initial if node.id in initial or not first.voters else ()
            self._happen(node, "start", directory_id=node.written.key)
            self._role(node, None)

    def _happen(self, node: _Node, kind: str, cause: str = "", **details: object) -> None:
        state = NO_STATE
        if kind != "start":
            leader = node.leader if node.role in ("Leader", "Follower") else None
            state = NodeState(node.epoch, node.role, leader, node.end, node.synced, node.hw or None, node.voters)
        at = len(self.events)
        self.events.append(event_of(at, at, node.id, kind, state, cause, details))

    def _role(self, node: _Node, was: str | None) -> None:
        # Whoever enters a role has synced its log.
        node.synced = node.end
        is_shown = node.role not in ("Candidate", "Leader", "Resigned")
        voted = node.voted if is_shown else None
        self._happen(node, "role", was=was, voted=voted, known_leader=node.leader)

    def _become(self, node: _Node, role: str, epoch: int, leader: int | None, voted: str | None) -> None:
        was, node.role, node.epoch, node.leader, node.voted = node.role, role, epoch, leader, voted
        self._role(node, was)

    # Elections

    def _campaign(self, node: _Node, epoch: int) -> None:
        """The node asks for votes in that epoch.  Before, it has lost elections in those that nobody has led."""
        if node.role == "Leader":
            self._become(node, "Resigned", node.epoch, node.id, node.written.key)
        if node.role == "Resigned":
            self._become(node, "Unattached", node.epoch + 1, None, None)
        while node.epoch < epoch:
            self._become(node, "Prospective", node.epoch, node.leader, node.voted)
            self._happen(node, "log", "role", role="Candidate", reason=SKIPPED, by="PRE_VOTE_WON")
            self._become(node, "Candidate", node.epoch + 1, None, node.written.key)

    def _vote(self, node: _Node, candidate: _Node) -> None:
        if node.epoch < candidate.epoch:
            node.role, node.epoch, node.leader = "Unattached", candidate.epoch, None
            node.synced = node.end
        node.voted = candidate.written.key
        key = candidate.written.key
        self._happen(node, "log", "vote requested", candidate=key, epoch=candidate.epoch, pre_vote=False, granted=True)

    def _node(self, node_id: int, what: str) -> _Node:
        if node_id not in self.nodes:
            raise NotTraceableError(f"node {node_id} {what}; expected its directory, too")
        return self.nodes[node_id]

    def epoch(self, epoch: int) -> None:
        """One election, and what its leader has appended."""
        batches = max(
            ([batch for batch in node.written.log if batch.epoch == epoch] for node in self.nodes.values()),
            key=lambda batches: batches[-1].end if batches else 0,
        )
        change = batches[0].leader_change
        if change is None:
            raise NotTraceableError(f"epoch {epoch} begins at offset {batches[0].base} without its leader")
        leader = self._node(change.leader_id, f"has led epoch {epoch}")
        self._campaign(leader, epoch)
        for node_id in change.granting_voter_ids:
            if node_id != leader.id:
                self._vote(self._node(node_id, f"has voted in epoch {epoch}"), leader)
        self._become(leader, "Leader", epoch, leader.id, leader.written.key)
        for batch in _ends(batches, self.nodes.values()):
            self._append(leader, batch)
            for node in self.nodes.values():
                if node is not leader and node.written.end >= (epoch, batch.end) and self._shares(node, batch):
                    self._fetch(node, leader, batch)
            self._sync(leader)
            self._commit(leader)

    def _shares(self, node: _Node, batch: Written) -> bool:
        return any(own.epoch == batch.epoch and own.end >= batch.end for own in node.written.log)

    def last_vote(self, node: _Node) -> None:
        """The epoch and vote of quorum-state, where they are newer than the log."""
        written = node.written
        candidate = None if written.voted is None else self.nodes.get(written.voted)
        if written.epoch < node.epoch or candidate is None or written.leader is not None:
            return
        if written.epoch > node.epoch or node.voted is None or node.voted != candidate.written.key:
            if candidate.epoch < written.epoch:
                self._campaign(candidate, written.epoch)
            if node is not candidate:
                self._vote(node, candidate)

    # Replication

    def _append(self, node: _Node, batch: Written) -> None:
        base, node.end = node.end, batch.end
        brought = _brought(node.written.log, base, batch.end) or ([batch] if batch.voters else [])
        if brought:
            node.voters = _ids(brought[-1].voters)
        self._happen(
            *(node, "append"),
            base_offset=base,
            next_offset=batch.end,
            record_epoch=batch.epoch,
            voters_offsets=[one.base for one in brought],
            voters=[one.voters for one in brought],
        )

    def _fetch(self, node: _Node, leader: _Node, batch: Written) -> None:
        if (node.epoch, node.role, node.leader) != (leader.epoch, "Follower", leader.id):
            voted = node.voted if node.epoch == leader.epoch else None
            self._become(node, "Follower", leader.epoch, leader.id, voted)
        self._append(node, batch)
        self._sync(node)

    def _sync(self, node: _Node) -> None:
        if node.synced < node.end:
            node.synced = node.end
            self._happen(node, "sync")

    def _commit(self, leader: _Node) -> None:
        voters = [self.nodes[node_id] for node_id in leader.voters if node_id in self.nodes]
        synced = [node for node in voters if node.epoch == leader.epoch and node.synced >= leader.end]
        if 2 * len(synced) > len(leader.voters):
            was, leader.hw = leader.hw, leader.end
            self._happen(leader, "high_watermark", was=was or None)


def _ends(batches: Iterable[Written], nodes: Iterable[_Node]) -> Iterator[Written]:
    """The batches, cut where some log ends."""
    ends = sorted({node.written.end[1] for node in nodes})
    for batch in batches:
        base = batch.base
        for end in [*(end for end in ends if batch.base < end < batch.end), batch.end]:
            yield attrs.evolve(batch, base=base, end=end)
            base = end


def _brought(log: Sequence[Written], base: int, end: int) -> list[Written]:
    return [batch for batch in log if base <= batch.base < end and batch.voters]


def _ids(keys: str) -> tuple[int, ...]:
    return tuple(int(key.partition("-")[0]) for key in keys.split())
