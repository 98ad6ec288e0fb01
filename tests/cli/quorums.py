"""Descriptions of quorums as their leader, node 1, would give them, for the commands to judge."""

from __future__ import annotations

from uuid import UUID

import attrs

from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey

NOW_MS = 1_700_000_000_000
END = 500
FETCH_TIMEOUT_MS = 2000
CLUSTER_ID = "fMCL8kv1SWm87L_Md-I2hg"


def key(node_id: int, disk: int = 1) -> ReplicaKey:
    """The incarnation of a node on its first disk, or a later one."""
    return ReplicaKey(node_id, UUID(int=(disk << 100) + node_id))


def up(node_id: int, disk: int = 1) -> ReplicaState:
    return ReplicaState(key(node_id, disk), END, NOW_MS - 400, NOW_MS - 500)


def leading(node_id: int = 1) -> ReplicaState:
    return ReplicaState(key(node_id), END, NOW_MS, NOW_MS)


def silent(node_id: int, disk: int = 1, *, for_ms: int = 12_300) -> ReplicaState:
    return ReplicaState(key(node_id, disk), END - 100, NOW_MS - for_ms, NOW_MS - for_ms)


def unheard_of(node_id: int, disk: int = 1) -> ReplicaState:
    return ReplicaState(key(node_id, disk))


def lagging(node_id: int, disk: int = 1) -> ReplicaState:
    return ReplicaState(key(node_id, disk), END - 200, NOW_MS - 100, NOW_MS - 9000)


def listeners(node_id: int) -> Endpoints:
    return Endpoints({"CONTROLLER": Endpoint(f"node-{node_id}", 9093)})


def telling(state: ReplicaState) -> ReplicaState:
    """An observer that has told the leader where it listens."""
    return attrs.evolve(state, listeners=listeners(state.key.id))


def quorum(*voters: ReplicaState, observers: tuple[ReplicaState, ...] = (), **fields: object) -> QuorumDescription:
    return QuorumDescription(
        cluster_id=CLUSTER_ID,
        leader_id=1,
        leader_epoch=5,
        high_watermark=END,
        voters=voters,
        observers=observers,
        endpoints={state.key.id: listeners(state.key.id) for state in voters},
        **fields,  # type: ignore[arg-type]
    )
