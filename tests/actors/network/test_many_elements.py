"""Requests with many elements: each API's work and answer grow no faster than the request, up to a limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import attrs
import pytest
import trio

from harness.plain_messages import read_plain, write_plain
from kraft_trio.actors.network.request_router import MAX_SOFTWARE_CHARACTERS
from kraft_trio.actors.peers.answers import Worked
from kraft_trio.errors import ProtocolError
from kraft_trio.node import Node
from kraft_trio.protocol.gossip import Advertisement
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.security.authorization import ANONYMOUS
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER
from kraft_trio.storage.log.log import Log
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    ALTER_PARTITION_REASSIGNMENTS,
    API_VERSIONS,
    APIS,
    BEGIN_QUORUM_EPOCH,
    CREATE_TOPICS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUORUM,
    DISCOVER_VOTERS,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
    PRODUCE,
    UPDATE_FEATURES,
    UPDATE_RAFT_VOTER,
    VOTE,
    Api,
)
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.alter_partition_reassignments import AlterPartitionReassignmentsRequest, ReassignedPartition
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.create_topics import CreateTopicsRequest, NewTopic
from kraft_trio.wire.apis.describe_log_dirs import DescribeLogDirsRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.find_coordinator import FindCoordinatorRequest
from kraft_trio.wire.apis.incremental_alter_configs import (
    BROKER,
    AlteredConfig,
    AlteredResource,
    IncrementalAlterConfigsRequest,
)
from kraft_trio.wire.apis.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse
from kraft_trio.wire.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataResponse, MetadataTopic
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.apis.update_features import FeatureUpdate, UpdateFeaturesRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.codec import RequestHeader, decode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema_reader import REQUEST_ELEMENTS
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, TOPIC, TOPIC_ID, RawClient, batch_of

pytestmark = pytest.mark.rotating(2)

CALLS_PER_ELEMENT: Final = 60
"""Of Python functions and methods, from the frame to the answer's bytes."""
BYTES_PER_ELEMENT: Final = 150
"""In an answer, besides what it repeats of the request."""
FIXED_CALLS: Final = 4000
FIXED_BYTES: Final = 4000
STRANGER_KEY: Final = ReplicaKey(9, UUID(int=9))


def with_listeners(count: int) -> Endpoints:
    return Endpoints([(LISTENER, Endpoint("h", 1))] * count)


def repeated(api: Api[Any, Any], version: int, request: object, array: str, count: int) -> bytes:
    """The frame of a request with the first element of that array many times over."""
    chunks: list[bytes] = []
    api.encode_request(request, version, chunks)
    structure = api.structure("request", version)
    fields = read_plain(structure, b"".join(chunks))
    *path, name = array.split(".")
    inner = fields
    for step in path:
        inner = inner[step][0]
    inner[name] = [next(iter(inner[name]))] * count
    header = api.key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    return header + b"\0" * (version >= api.flexible_version) + write_plain(structure, fields)


def one_of_each() -> Iterator[tuple[Api[Any, Any], int, object, str]]:
    """Each array of each API, as the fields of a request with one element of it."""
    fetched = FetchPartition(TOPIC, TOPIC_ID, 0, 0, 2**20)
    yield FETCH, 13, FetchRequest(CLUSTER_ID, partitions=(fetched,), max_wait_ms=0), "topics"
    yield FETCH, 13, FetchRequest(CLUSTER_ID, partitions=(fetched,), max_wait_ms=0), "topics.partitions"
    yield FETCH, 17, FetchRequest(CLUSTER_ID, 9, partitions=(fetched,), max_wait_ms=0), "topics.partitions"
    observed = FetchRequest(CLUSTER_ID, 9, partitions=(fetched,), max_wait_ms=0, listeners=with_listeners(1))
    yield FETCH, 17, observed, "listeners"
    produced = ProducePartition(TOPIC, TOPIC_ID, 0, batch_of(b"v"))
    yield PRODUCE, 13, ProduceRequest(-1, 1000, (produced,)), "topic_data"
    yield PRODUCE, 13, ProduceRequest(-1, 1000, (produced,)), "topic_data.partition_data"
    for timestamp in (0, LATEST):
        listed = ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, timestamp),))
        yield LIST_OFFSETS, 7, listed, "topics"
        yield LIST_OFFSETS, 7, listed, "topics.partitions"
    yield METADATA, 1, MetadataRequest((MetadataTopic(TOPIC),)), "topics"
    yield METADATA, 12, MetadataRequest((MetadataTopic(None, TOPIC_ID),)), "topics"
    yield FIND_COORDINATOR, 4, FindCoordinatorRequest(("group",)), "coordinator_keys"
    for version in (0, 2):
        yield UPDATE_FEATURES, version, UpdateFeaturesRequest((FeatureUpdate("f" * 100, 1),)), "feature_updates"
    vote = VoteRequest(CLUSTER_ID, -1, TOPIC, 0, STRANGER_KEY, 1, NO_DIRECTORY_ID, 0, 0)
    begin = BeginQuorumEpochRequest(CLUSTER_ID, -1, TOPIC, 0, NO_DIRECTORY_ID, 9, 1, with_listeners(1))
    end = EndQuorumEpochRequest(CLUSTER_ID, TOPIC, 0, 9, 1, (1,), (STRANGER_KEY,), with_listeners(1))
    snapshot = FetchSnapshotRequest(CLUSTER_ID, 9, 1, TOPIC, 0, 1, OffsetAndEpoch(1, 1), 0)
    for api, request in (
        (VOTE, vote),
        (BEGIN_QUORUM_EPOCH, begin),
        (END_QUORUM_EPOCH, end),
        (FETCH_SNAPSHOT, snapshot),
    ):
        yield api, api.max_version, request, "topics"
        yield api, api.max_version, request, "topics.partitions"
    yield DESCRIBE_QUORUM, 2, DescribeQuorumRequest(TOPIC), "topics"
    yield DESCRIBE_QUORUM, 2, DescribeQuorumRequest(TOPIC), "topics.partitions"
    yield BEGIN_QUORUM_EPOCH, 1, begin, "leader_endpoints"
    yield END_QUORUM_EPOCH, 1, end, "leader_endpoints"
    yield END_QUORUM_EPOCH, 0, end, "topics.partitions.preferred_successors"
    yield END_QUORUM_EPOCH, 1, end, "topics.partitions.preferred_candidates"
    add = AddRaftVoterRequest(CLUSTER_ID, 1000, 9, UUID(int=9), with_listeners(1))
    yield ADD_RAFT_VOTER, 1, add, "listeners"
    update = UpdateRaftVoterRequest(CLUSTER_ID, 1, 9, UUID(int=9), with_listeners(1), VersionRange(0, 1))
    yield UPDATE_RAFT_VOTER, 0, update, "listeners"
    advertised = Advertisement(STRANGER_KEY, 1, 1, with_listeners(1))
    discover = DiscoverVotersRequest(CLUSTER_ID, (advertised,))
    yield DISCOVER_VOTERS, 0, discover, "advertisements"
    yield DISCOVER_VOTERS, 0, discover, "advertisements.endpoints"
    for topic in (TOPIC, "other"):
        partition = ReassignedPartition(topic, 0, (ReplicaKey(1),))
        altered = AlterPartitionReassignmentsRequest(1000, (partition,))
        yield ALTER_PARTITION_REASSIGNMENTS, 1, altered, "topics"
        yield ALTER_PARTITION_REASSIGNMENTS, 1, altered, "topics.partitions"
        yield ALTER_PARTITION_REASSIGNMENTS, 1, altered, "topics.partitions.replicas"
    configured = IncrementalAlterConfigsRequest((AlteredResource(BROKER, "1", (AlteredConfig("key", 0, "value"),)),))
    yield INCREMENTAL_ALTER_CONFIGS, 1, configured, "resources"
    yield INCREMENTAL_ALTER_CONFIGS, 1, configured, "resources.configs"
    created = CreateTopicsRequest((NewTopic("new", assignments=((0, (1,)),), configs=(("key", "value"),)),))
    yield CREATE_TOPICS, 7, CreateTopicsRequest((NewTopic("new"),)), "topics"
    for array in ("topics.assignments", "topics.assignments.broker_ids", "topics.configs"):
        yield CREATE_TOPICS, 7, created, array
    reassigned = ListPartitionReassignmentsRequest(1000, ((TOPIC, 0),))
    yield LIST_PARTITION_REASSIGNMENTS, 0, reassigned, "topics"
    yield LIST_PARTITION_REASSIGNMENTS, 0, reassigned, "topics.partitions"
    directories = DescribeLogDirsRequest(((TOPIC, 0),))
    yield DESCRIBE_LOG_DIRS, 3, directories, "topics"
    yield DESCRIBE_LOG_DIRS, 3, directories, "topics.partitions"


ARRAYS: Final = tuple(one_of_each())
NAMES: Final = [
    f"{api.name} v{version} {array} {getattr(request, 'replica_id', '')}" for api, version, request, array in ARRAYS
]


@attrs.define
class Calls:
    count: int = 0


@contextmanager
def calls_counted() -> Iterator[Calls]:
    calls = Calls()

    def profile(_frame: object, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            calls.count += 1

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def serve(node: Node, frame: bytes) -> bytes:
    """What a connection does with a frame."""
    header, request = decode_request(frame)
    answer = await node.tree.server._router.route(header, LISTENER, request)
    if isinstance(answer, Worked):
        await answer.work()
    ready = trio.Event()
    answer.when_ready(lambda: ready.set() if answer.is_ready else None)
    await ready.wait()
    return encode_response(header.api, header.version, 0, answer.response())


@on_cluster(voters=1)
async def test_little_is_kept_of_what_a_client_says_that_it_runs(cluster: Cluster) -> None:
    """Each connection keeps it for as long as it is open, and no budget of memory counts it."""
    leader = await cluster.wait_for_leader()
    request = ApiVersionsRequest("x" * 2**20)
    asker: Any = SimpleNamespace(software="", principal=ANONYMOUS, peer_host="client")
    await leader.tree.server._router.route(RequestHeader(API_VERSIONS, 3, 1), LISTENER, request, asker=asker)
    assert len(asker.software) == MAX_SOFTWARE_CHARACTERS


@pytest.mark.parametrize(("api", "version", "request_", "array"), ARRAYS, ids=NAMES)
@on_cluster(voters=1, invariants=FORGED)
async def test_work_and_answer_are_bounded_by_the_request(
    cluster: Cluster, api: Api[Any, Any], version: int, request_: object, array: str
) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    count = REQUEST_ELEMENTS // 3
    frame = repeated(api, version, request_, array, count)
    await serve(leader, repeated(api, version, request_, array, 2))
    with calls_counted() as calls:
        answer = await serve(leader, frame)
    assert calls.count < FIXED_CALLS + CALLS_PER_ELEMENT * count
    assert len(answer) < FIXED_BYTES + len(frame) + BYTES_PER_ELEMENT * count


@pytest.mark.parametrize(("api", "version", "request_", "array"), ARRAYS, ids=NAMES)
def test_a_hundred_thousand_elements_are_not_even_read(
    api: Api[Any, Any], version: int, request_: object, array: str
) -> None:
    frame = repeated(api, version, request_, array, 100_000)
    few = repeated(api, version, request_, array, 1)
    decode_request(few)
    with calls_counted() as calls, pytest.raises(ProtocolError, match="too many elements"):
        decode_request(frame)
    assert calls.count < 1000


def test_every_array_of_every_request_is_tried() -> None:
    tried = {api.name for api, *_ in ARRAYS}
    without_arrays = {
        "ApiVersions",
        "DescribeCluster",
        "InitProducerId",
        "ReadIndex",
        "RemoveRaftVoter",
        "ReplicaSnapshots",
        "SaslAuthenticate",
        "SaslHandshake",
        "TransferLeadership",
    }
    assert tried | without_arrays == {api.name for api in APIS.values()}


@on_cluster(voters=1)
async def test_one_request_searches_the_log_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    (offset,) = await leader.append([b"value"])
    searches = 0
    real = Log.offset_for_timestamp

    async def search(self: Log, timestamp_ms: int) -> tuple[int, int] | None:
        nonlocal searches
        searches += 1
        return await real(self, timestamp_ms)

    monkeypatch.setattr(Log, "offset_for_timestamp", search)
    async with RawClient.connected(cluster, 1) as client:
        request = ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, 1),) * 500)
        response: ListOffsetsResponse = await client.ask(LIST_OFFSETS, request)
    assert searches == 1
    first, *others = response.partitions
    assert (first.error, first.offset <= offset) == (ErrorCode.none, True)
    assert {answer.error for answer in others} == {ErrorCode.invalid_request}


@on_cluster(voters=1)
async def test_a_topic_asked_for_twice_is_described_once(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        topics = (MetadataTopic("other"), MetadataTopic(TOPIC), MetadataTopic("other"), MetadataTopic(TOPIC))
        response: MetadataResponse = await client.ask(METADATA, MetadataRequest(topics))
    assert [topic.name for topic in response.topics] == ["other", TOPIC]
