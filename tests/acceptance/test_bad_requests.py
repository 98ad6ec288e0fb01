"""Requests of the quorum's own protocol that are well-formed and wrong: Kafka's error, and nothing changes.

KIP-595 and KIP-853, the errors by handler; a Java peer stops for good at some of these answers, so each is exact.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest

from harness.node import NodeProcess
from harness.quorum import TOPIC, Quorum
from harness.raw_connection import RawConnection
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.wire.api import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, LIST_OFFSETS, VOTE, Api
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.unharmed import unharmed

NOBODY = UUID(int=0)
TOPIC_ID = UUID(int=1)
ANOTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
STRANGER = ReplicaKey(99, UUID(int=0x1234567890))


@attrs.frozen
class Sound:
    """Requests that are right in everything but what a test evolves; none of them would change anything either."""

    cluster_id: str
    leader: int
    epoch: int

    @classmethod
    def of(cls, quorum: Quorum) -> Sound:
        leader, answer = quorum.described_by_leader()
        return cls(quorum.cluster_id, leader.id, answer.leader_epoch)

    def vote(self, **changes: Any) -> VoteRequest:
        request = VoteRequest(self.cluster_id, -1, TOPIC, 0, STRANGER, self.epoch, NOBODY, 0, 0)
        return attrs.evolve(request, **changes)

    def begin(self, **changes: Any) -> BeginQuorumEpochRequest:
        endpoints = Endpoints({"CONTROLLER": Endpoint("127.0.0.1", 1)})
        request = BeginQuorumEpochRequest(self.cluster_id, -1, TOPIC, 0, NOBODY, self.leader, self.epoch, endpoints)
        return attrs.evolve(request, **changes)

    def end(self, **changes: Any) -> EndQuorumEpochRequest:
        request = EndQuorumEpochRequest(self.cluster_id, TOPIC, 0, self.leader, self.epoch)
        return attrs.evolve(request, **changes)

    def fetch(self, *, replica_id: int = STRANGER.id, cluster_id: str | None = None, **changes: Any) -> FetchRequest:
        partition = FetchPartition(
            TOPIC, TOPIC_ID, 0, fetch_offset=0, max_bytes=1000, current_leader_epoch=self.epoch, last_fetched_epoch=0
        )
        partition = attrs.evolve(partition, replica_directory_id=STRANGER.directory_id, **changes)
        return FetchRequest(cluster_id or self.cluster_id, replica_id, max_wait_ms=0, partitions=(partition,))

    def fetch_snapshot(self, **changes: Any) -> FetchSnapshotRequest:
        snapshot_id = OffsetAndEpoch(5, 1)
        request = FetchSnapshotRequest(self.cluster_id, STRANGER.id, 1000, TOPIC, 0, self.epoch, snapshot_id, 0)
        return attrs.evolve(request, **changes)


@pytest.fixture(scope="module")
def quorum(make_module_quorum: MakeQuorum) -> Quorum:
    """In an epoch with others before it: a candidate that cannot win has raised it."""
    quorum = make_module_quorum(is_steady=True)
    quorum.start()
    quorum.wait_until_caught_up()
    sound = Sound.of(quorum)
    for node in quorum.nodes.values():
        answer = ask(node, VOTE, sound.vote(replica_epoch=sound.epoch + 10))
        assert not answer.vote_granted
    quorum.wait_until_caught_up()
    assert Sound.of(quorum).epoch > sound.epoch + 10
    return quorum


def ask(node: NodeProcess, api: Api[Any, Any], request: Any, version: int | None = None) -> Any:
    with RawConnection(node.endpoint) as connection:
        return connection.request(api, request, version)


def only_partition(response: FetchResponse) -> FetchPartitionResponse:
    assert response.error is ErrorCode.none
    [partition] = response.partitions
    return partition


def test_wrong_cluster_id(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    later = sound.epoch + 5
    with unharmed(quorum) as leader:
        # Each would change something, were it not for the cluster id.
        answers = [
            ask(leader, VOTE, sound.vote(cluster_id=ANOTHER_CLUSTER, replica_epoch=later)),
            ask(leader, BEGIN_QUORUM_EPOCH, sound.begin(cluster_id=ANOTHER_CLUSTER, leader_id=99, leader_epoch=later)),
            ask(leader, END_QUORUM_EPOCH, sound.end(cluster_id=ANOTHER_CLUSTER, leader_id=99, leader_epoch=later)),
            ask(leader, FETCH, sound.fetch(cluster_id=ANOTHER_CLUSTER)),
            ask(leader, FETCH_SNAPSHOT, sound.fetch_snapshot(cluster_id=ANOTHER_CLUSTER)),
        ]
    assert {answer.error for answer in answers} == {ErrorCode.inconsistent_cluster_id}


def test_wrong_topic_or_partition(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    later = sound.epoch + 5
    with unharmed(quorum) as leader:
        answers = [
            ask(leader, VOTE, sound.vote(topic="other", replica_epoch=later)),
            ask(leader, VOTE, sound.vote(partition=1, replica_epoch=later)),
            ask(leader, BEGIN_QUORUM_EPOCH, sound.begin(topic="other", leader_id=99, leader_epoch=later)),
            ask(leader, END_QUORUM_EPOCH, sound.end(partition=1, leader_id=99, leader_epoch=later)),
            ask(leader, FETCH, sound.fetch(topic_id=UUID(int=77))),
            ask(leader, FETCH, sound.fetch(partition=1)),
        ]
        snapshot = ask(leader, FETCH_SNAPSHOT, sound.fetch_snapshot(topic="other"))
        consumer = ask(leader, FETCH, sound.fetch(replica_id=-1, topic_id=UUID(int=77)))
        named = ask(leader, FETCH, sound.fetch(replica_id=-1, topic_name="other"), version=12)
    assert {answer.error for answer in answers} == {ErrorCode.invalid_request}
    assert snapshot.partition_error is ErrorCode.unknown_topic_or_partition
    assert only_partition(consumer).error is ErrorCode.unknown_topic_id
    assert only_partition(named).error is ErrorCode.unknown_topic_or_partition


def test_fenced_epoch(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    old = sound.epoch - 1
    with unharmed(quorum) as leader:
        for node in quorum.nodes.values():
            answers = [
                ask(node, VOTE, sound.vote(replica_epoch=old, last_offset=10**6)),
                ask(node, VOTE, sound.vote(replica_epoch=old, pre_vote=True)),
                ask(node, BEGIN_QUORUM_EPOCH, sound.begin(leader_id=99, leader_epoch=old)),
                ask(node, END_QUORUM_EPOCH, sound.end(leader_epoch=old)),
            ]
            assert {answer.partition_error for answer in answers} == {ErrorCode.fenced_leader_epoch}
            # Whoever is fenced is told what it has missed.
            assert {(answer.leader_id, answer.leader_epoch) for answer in answers} == {(leader.id, sound.epoch)}
        fetched = only_partition(ask(leader, FETCH, sound.fetch(current_leader_epoch=old)))
        snapshot = ask(leader, FETCH_SNAPSHOT, sound.fetch_snapshot(current_leader_epoch=old))
        offsets = ask(leader, LIST_OFFSETS, ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, LATEST, old),)))
    assert (fetched.error, fetched.leader_epoch) == (ErrorCode.fenced_leader_epoch, sound.epoch)
    assert snapshot.partition_error is ErrorCode.fenced_leader_epoch
    assert offsets.partitions[0].error is ErrorCode.fenced_leader_epoch


def test_future_epoch(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    later = sound.epoch + 1
    with unharmed(quorum) as leader:
        fetched = only_partition(ask(leader, FETCH, sound.fetch(current_leader_epoch=later)))
        snapshot = ask(leader, FETCH_SNAPSHOT, sound.fetch_snapshot(current_leader_epoch=later))
        offsets = ask(leader, LIST_OFFSETS, ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, LATEST, later),)))
    assert fetched.error is ErrorCode.unknown_leader_epoch
    assert snapshot.partition_error is ErrorCode.unknown_leader_epoch
    assert offsets.partitions[0].error is ErrorCode.unknown_leader_epoch


def test_a_pre_vote_for_a_future_epoch_makes_no_one_vote(quorum: Quorum) -> None:
    """A pre-vote names the epoch its sender is in; from a log this far behind it is refused, and persists nothing."""
    sound = Sound.of(quorum)
    with unharmed(quorum):
        answers = [
            ask(node, VOTE, sound.vote(pre_vote=True, last_offset=0, last_offset_epoch=0))
            for node in quorum.nodes.values()
        ]
    assert [answer.vote_granted for answer in answers] == [False, False, False]
    assert {answer.partition_error for answer in answers} == {ErrorCode.none}


@pytest.mark.parametrize(
    "changes",
    [
        {"replica": ReplicaKey(-1, NOBODY)},
        {"last_offset": -1},
        {"last_offset_epoch": -1},
        {"later": 5, "last_offset_epoch": 10**6},
        {"later": 5, "last_offset": -1},
    ],
)
def test_votes_that_no_candidate_asks_for(quorum: Quorum, changes: dict[str, Any]) -> None:
    sound = Sound.of(quorum)
    epoch = sound.epoch + changes.get("later", 0)
    fields = {name: value for name, value in changes.items() if name != "later"}
    with unharmed(quorum) as leader:
        answer = ask(leader, VOTE, sound.vote(replica_epoch=epoch, **fields))
    assert (answer.error, answer.partition_error) == (ErrorCode.none, ErrorCode.invalid_request)
    assert not answer.vote_granted


def test_a_vote_meant_for_somebody_else(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    # A follower believes what it hears of its leader's address, whomever it was meant for.
    endpoints = Endpoints({"CONTROLLER": quorum.nodes[sound.leader].endpoint})
    with unharmed(quorum):
        answers = [
            ask(quorum.nodes[1], VOTE, sound.vote(voter_id=2)),
            ask(quorum.nodes[1], VOTE, sound.vote(voter_id=1, voter_directory_id=UUID(int=0xABCDEF))),
            ask(quorum.nodes[1], BEGIN_QUORUM_EPOCH, sound.begin(voter_id=2, leader_endpoints=endpoints)),
        ]
    assert [answer.partition_error for answer in answers[:2]] == [ErrorCode.invalid_voter_key] * 2
    own = quorum.nodes[1].id == sound.leader
    assert answers[2].partition_error is (ErrorCode.invalid_request if own else ErrorCode.invalid_voter_key)


def test_a_second_leader_of_the_same_epoch(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    impostor = next(node_id for node_id in quorum.nodes if node_id != sound.leader)
    with unharmed(quorum):
        for node in quorum.nodes.values():
            begun = ask(node, BEGIN_QUORUM_EPOCH, sound.begin(leader_id=impostor))
            ended = ask(node, END_QUORUM_EPOCH, sound.end(leader_id=impostor))
            assert begun.partition_error is ErrorCode.invalid_request
            assert ended.partition_error is ErrorCode.invalid_request


@pytest.mark.parametrize(
    "changes", [{"fetch_offset": -1}, {"last_fetched_epoch": -1}, {"last_fetched_epoch": 10**6}, {"max_wait_ms": -1}]
)
def test_fetches_that_no_replica_sends(quorum: Quorum, changes: dict[str, int]) -> None:
    sound = Sound.of(quorum)
    of_partition = {name: value for name, value in changes.items() if name != "max_wait_ms"}
    request = attrs.evolve(sound.fetch(**of_partition), max_wait_ms=changes.get("max_wait_ms", 0))
    with unharmed(quorum) as leader:
        assert only_partition(ask(leader, FETCH, request)).error is ErrorCode.invalid_request


def test_a_consumer_beyond_the_end(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    with unharmed(quorum) as leader:
        for offset in (10**9, -5):
            answer = ask(leader, FETCH, sound.fetch(replica_id=-1, fetch_offset=offset, last_fetched_epoch=-1))
            assert only_partition(answer).error is ErrorCode.offset_out_of_range


def test_a_follower_sends_clients_to_the_leader(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    with unharmed(quorum) as leader:
        follower = next(node for node in quorum.nodes.values() if node is not leader)
        answer = ask(follower, FETCH, sound.fetch(replica_id=-1))
    assert only_partition(answer).error is ErrorCode.not_leader_or_follower
    assert answer.node_endpoints == ((leader.id, leader.endpoint),)


def test_snapshots_that_do_not_exist(quorum: Quorum) -> None:
    sound = Sound.of(quorum)
    with unharmed(quorum) as leader:
        answers = [
            ask(leader, FETCH_SNAPSHOT, sound.fetch_snapshot(snapshot_id=id))
            for id in (OffsetAndEpoch(0, 0), OffsetAndEpoch(7, 1), OffsetAndEpoch(-1, -1))
        ]
    assert {answer.partition_error for answer in answers} == {ErrorCode.snapshot_not_found}
