"""What a quorum must look like after input that it refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import attrs

from harness.node import NodeProcess
from harness.quorum import Quorum


@attrs.frozen
class Evidence:
    """What is on a node's disk: its epoch, leader and vote, and its log."""

    quorum_state: bytes
    log: bytes

    @classmethod
    def of(cls, node: NodeProcess) -> Evidence:
        return cls(node.quorum_state_bytes(), node.log_bytes())


@contextmanager
def unharmed(quorum: Quorum, node_ids: Iterable[int] = ()) -> Iterator[NodeProcess]:
    """Gives the leader to a block that misbehaves; `node_ids` are the nodes that run, by default all.

    Afterwards nothing on any node's disk has changed, every process runs, the leader is the same in the same epoch, and
    the quorum commits.  Nobody else may write meanwhile.
    """
    nodes = [quorum.nodes[node_id] for node_id in (node_ids or quorum.nodes)]
    quorum.wait_until_caught_up(node.id for node in nodes)
    leader, before = quorum.described_by_leader()
    evidence = {node.id: Evidence.of(node) for node in nodes}
    yield leader
    for node in nodes:
        assert node.running, f"node {node.id} ended with code {node.exit_code}"
        assert Evidence.of(node) == evidence[node.id], f"node {node.id} has changed its quorum-state or its log"
    quorum.produce(["still committing"])
    leader_now, after = quorum.described_by_leader()
    assert (leader_now, after.leader_epoch) == (leader, before.leader_epoch)
    assert after.high_watermark == before.high_watermark + 1
