"""Requests in the names of voters and of other clusters."""

from __future__ import annotations

from harness.quorum import TOPIC
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.wire.api import (
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    UPDATE_RAFT_VOTER,
    VOTE,
)
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest
from scripts.attacks.arena import Arena, frame_of
from scripts.attacks.epochs import NOWHERE, TOPIC_ID

ANOTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"


def play(arena: Arena) -> None:
    """Each request to each node, as each voter, whose directory ids DescribeQuorum tells."""
    _, described = arena.quorum.described_by_leader()
    for _ in range(arena.count(20, 2)):
        for node in arena.nodes:
            for voter in (replica.key for replica in described.voters):
                for cluster_id in (None, arena.quorum.cluster_id, ANOTHER_CLUSTER):
                    for frame in frames(cluster_id, voter, arena.epoch):
                        arena.send(frame, "CLIENT", node)


def frames(cluster_id: str | None, voter: ReplicaKey, epoch: int) -> list[bytes]:
    vote = VoteRequest(cluster_id, -1, TOPIC, 0, voter, epoch + 1, NO_DIRECTORY_ID, 2**40, epoch)
    begin = BeginQuorumEpochRequest(cluster_id, -1, TOPIC, 0, NO_DIRECTORY_ID, voter.id, epoch + 1, NOWHERE)
    end = EndQuorumEpochRequest(cluster_id, TOPIC, 0, voter.id, epoch)
    fetch = FetchRequest(cluster_id, voter.id, 0, partitions=(_ahead(voter, epoch),))
    snapshot = FetchSnapshotRequest(cluster_id, voter.id, 2**31 - 1, TOPIC, 0, epoch, OffsetAndEpoch(0, 0), 0)
    update = UpdateRaftVoterRequest(cluster_id, epoch, voter.id, voter.directory_id, NOWHERE, VersionRange(0, 1))
    return [
        frame_of(VOTE, vote),
        frame_of(BEGIN_QUORUM_EPOCH, begin),
        frame_of(END_QUORUM_EPOCH, end),
        frame_of(FETCH, fetch),
        frame_of(FETCH_SNAPSHOT, snapshot),
        frame_of(UPDATE_RAFT_VOTER, update),
    ]


def _ahead(voter: ReplicaKey, epoch: int) -> FetchPartition:
    """The position of a replica that holds more than there is."""
    return FetchPartition(TOPIC, TOPIC_ID, 0, 2**40, 1000, epoch, epoch, replica_directory_id=voter.directory_id)
