"""Requests with epochs at the limits.

Some name no cluster, some the right one: anybody can learn it from Metadata.
"""

from __future__ import annotations

from uuid import UUID

from harness.quorum import TOPIC
from kraft_trio.protocol.epoch_limits import EPOCHS_AT_ONCE, LAST_ANSWERED_EPOCH, LAST_REQUESTED_EPOCH, MAX_EPOCH
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey
from kraft_trio.wire.api import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, VOTE
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.vote import VoteRequest
from scripts.attacks.arena import LISTENERS, Arena, frame_of

LIMITS = (LAST_REQUESTED_EPOCH, LAST_ANSWERED_EPOCH, MAX_EPOCH)
EPOCHS = (*sorted({min(MAX_EPOCH, limit + step) for limit in LIMITS for step in (-1, 0, 1)}), -1, -(2**31))
TOPIC_ID = UUID(int=1)
STRANGER = ReplicaKey(99, UUID(int=99))
NOWHERE = Endpoints({"CONTROLLER": Endpoint("127.0.0.1", 1)})


def play(arena: Arena) -> None:
    """Ask every node."""
    for epoch in (*EPOCHS, arena.epoch + EPOCHS_AT_ONCE + 1):
        for cluster_id in (None, arena.quorum.cluster_id):
            for listener in LISTENERS:
                for node in arena.nodes:
                    for frame in frames(cluster_id, epoch):
                        arena.send(frame, listener, node)


def frames(cluster_id: str | None, epoch: int) -> list[bytes]:
    vote = VoteRequest(cluster_id, -1, TOPIC, 0, STRANGER, epoch, NO_DIRECTORY_ID, 2**40, max(0, epoch - 1))
    pre_vote = VoteRequest(cluster_id, -1, TOPIC, 0, STRANGER, epoch, NO_DIRECTORY_ID, 2**40, 0, pre_vote=True)
    begin = BeginQuorumEpochRequest(cluster_id, -1, TOPIC, 0, NO_DIRECTORY_ID, STRANGER.id, epoch, NOWHERE)
    end = EndQuorumEpochRequest(cluster_id, TOPIC, 0, STRANGER.id, epoch)
    fetches = [
        FetchRequest(cluster_id, replica_id, 0, partitions=(FetchPartition(TOPIC, TOPIC_ID, 0, 0, 1000, epoch, epoch),))
        for replica_id in (-1, STRANGER.id)
    ]
    return [
        frame_of(VOTE, vote),
        frame_of(VOTE, pre_vote),
        frame_of(BEGIN_QUORUM_EPOCH, begin),
        frame_of(END_QUORUM_EPOCH, end),
        *(frame_of(FETCH, fetch) for fetch in fetches),
    ]
