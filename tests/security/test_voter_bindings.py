"""With a binding, no voter speaks for another."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.security.voter_bindings import Binding, Claim, false_claim
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest

DISK, OTHER_DISK = UUID(int=11), UUID(int=12)
TOPIC, TOPIC_ID = "orders", UUID(int=1)
BINDINGS = (Binding("User:one", 1, DISK), Binding("User:two", 2), Binding("User:two", 3))


def requests_of(node_id: int, directory_id: UUID) -> list[Any]:
    partition = FetchPartition(TOPIC, TOPIC_ID, 0, 0, 1, replica_directory_id=directory_id)
    return [
        VoteRequest("c", 9, TOPIC, 0, ReplicaKey(node_id, directory_id), 1, UUID(int=9), 0, 0),
        FetchRequest("c", node_id, partitions=(partition,)),
        FetchSnapshotRequest("c", node_id, 1, TOPIC, 0, 1, OffsetAndEpoch(1, 1), 0, directory_id),
        UpdateRaftVoterRequest("c", 1, node_id, directory_id, Endpoints(), VersionRange(0, 1)),
    ]


@pytest.mark.parametrize(
    ("principal", "node_id", "directory_id", "may"),
    [
        ("User:one", 1, DISK, True),
        ("User:one", 1, NO_DIRECTORY_ID, True),
        ("User:one", 1, OTHER_DISK, False),
        ("User:one", 2, DISK, False),
        ("User:one", 4, DISK, False),
        ("User:two", 1, DISK, False),
        ("User:two", 2, OTHER_DISK, True),
        ("User:two", 3, DISK, True),
        ("User:four", 1, DISK, False),
        ("User:four", 4, DISK, True),
    ],
)
def test_a_principal_speaks_for_its_replica_alone(principal: str, node_id: int, directory_id: UUID, may: bool) -> None:
    claim = Claim(node_id, directory_id)
    for request in requests_of(node_id, directory_id):
        assert false_claim(principal, request, BINDINGS) == (None if may else claim)
        assert false_claim(principal, request, ()) is None


def test_a_leader_has_no_directory_in_its_messages() -> None:
    for leader_id, claim in ((1, None), (2, Claim(2))):
        begin = BeginQuorumEpochRequest("c", 9, TOPIC, 0, UUID(int=9), leader_id, 1)
        end = EndQuorumEpochRequest("c", TOPIC, 0, leader_id, 1)
        assert [false_claim("User:one", request, BINDINGS) for request in (begin, end)] == [claim, claim]


def test_a_bound_principal_may_still_be_a_client() -> None:
    assert false_claim("User:one", FetchRequest("c"), BINDINGS) is None
