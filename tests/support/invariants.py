"""What must hold of a running cluster at any time, checked in the step in which a node changes its role or its log."""

from __future__ import annotations

import attrs

from kraft_trio.messages import QuorumView
from kraft_trio.node import Node
from kraft_trio.protocol.roles import election_state_of, vote_of
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.storage.directory import partition_path
from kraft_trio.storage.disk import Disk
from kraft_trio.storage.quorum_state import QuorumStateFile


@attrs.define
class Invariants:
    """One history of one cluster.  A broken invariant is an AssertionError in the actor that broke it."""

    leaders: dict[int, int] = attrs.field(factory=dict)
    """Who led each epoch."""
    epochs: dict[ReplicaKey, int] = attrs.field(factory=dict)
    """The newest epoch of each replica, over its restarts."""
    votes: dict[tuple[ReplicaKey, int], object] = attrs.field(factory=dict)
    """The vote each replica stored in each epoch."""
    committed: dict[int, bytes] = attrs.field(factory=dict)
    """Each batch that any node took for committed, by base offset."""

    def attach(self, node: Node, disk: Disk) -> None:
        """Watch one incarnation of a node from now on."""
        _Watch(self, node, QuorumStateFile(disk, _quorum_state_path(node))).begin()

    def names_leader(self, epoch: int, leader_id: int) -> None:
        known = self.leaders.setdefault(epoch, leader_id)
        assert known == leader_id, f"{known} and {leader_id} lead epoch {epoch}"

    def reaches_epoch(self, key: ReplicaKey, epoch: int) -> None:
        known = self.epochs.get(key, 0)
        assert epoch >= known, f"the epoch of {key} fell from {known} to {epoch}"
        self.epochs[key] = epoch

    def stores_vote(self, key: ReplicaKey, epoch: int, voted: object) -> None:
        known = self.votes.setdefault((key, epoch), voted)
        assert known == voted, f"{key} voted for {known} and {voted} in epoch {epoch}"

    def commits(self, node_id: int, base_offset: int, batch: bytes) -> None:
        known = self.committed.setdefault(base_offset, batch)
        assert known == batch, f"{node_id} has another committed batch at offset {base_offset}"


def _quorum_state_path(node: Node) -> str:
    return f"{partition_path(node.config.metadata_log_dir, node.config.topic_name)}/quorum-state"


class _Watch:
    """Steps in behind what a node publishes and commits."""

    def __init__(self, history: Invariants, node: Node, quorum_state: QuorumStateFile) -> None:
        self._history = history
        self._node = node
        self._quorum_state = quorum_state
        self._checked = 0
        self._publish = node.election.view.publish
        self._advance_high_watermark = node.log.advance_high_watermark

    def begin(self) -> None:
        self._history.reaches_epoch(self._node.key, self._node.view.epoch)
        self._node.election.view.publish = self._published  # type: ignore[method-assign]
        self._node.log.advance_high_watermark = self._advanced  # type: ignore[method-assign]

    def _published(self, view: QuorumView) -> None:
        key = self._node.key
        self._history.reaches_epoch(key, view.epoch)
        if view.leader_id is not None:
            self._history.names_leader(view.epoch, view.leader_id)
        stored = self._quorum_state.read()
        assert stored is not None
        if view.kraft_version == 0 and stored.voted_key is not None:
            # That version of the file keeps the id alone.
            assert stored.voted_key.directory_id == NO_DIRECTORY_ID
            stored = attrs.evolve(stored, voted_key=vote_of(view.role, key))
        expected = election_state_of(view.role, key)
        assert stored == expected, f"{key.id} is {view.role}, but has stored {stored}"
        voted = stored.voted_key or (key if stored.leader_id == key.id else None)
        if voted is not None:
            self._history.stores_vote(key, view.epoch, voted)
        self._publish(view)

    def _advanced(self, offset: int) -> None:
        before = self._node.log.high_watermark
        self._advance_high_watermark(offset)
        log = self._node.log
        assert log.high_watermark is not None
        assert before is None or log.high_watermark >= before, "the high watermark fell"
        assert log.high_watermark <= log.end_offset
        for header, batch in log.iter_batches(self._checked, log.high_watermark):
            if header.next_offset <= log.high_watermark:
                self._history.commits(self._node.key.id, header.base_offset, batch)
                self._checked = header.next_offset
