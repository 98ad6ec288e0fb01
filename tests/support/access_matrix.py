"""Who may ask what of a node with an authorizer: one table, for this project's nodes and for Kafka's.

No request changes anything when it is allowed: most of them name another cluster.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.security.authorization import ANONYMOUS
from kraft_trio.wire import api as apis
from kraft_trio.wire.api import Api
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.create_topics import CreateTopicsRequest, NewTopic
from kraft_trio.wire.apis.describe_cluster import DescribeClusterRequest
from kraft_trio.wire.apis.describe_log_dirs import DescribeLogDirsRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.find_coordinator import FindCoordinatorRequest
from kraft_trio.wire.apis.incremental_alter_configs import (
    BROKER,
    TOPIC,
    AlteredResource,
    IncrementalAlterConfigsRequest,
)
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest
from kraft_trio.wire.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest
from kraft_trio.wire.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataTopic
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from kraft_trio.wire.apis.update_features import UpdateFeaturesRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.error_codes import ErrorCode

CLIENT, DESCRIBER, OPERATOR = "User:client", "User:describer", "User:operator"
MANAGER, CONTROLLER, SUPER_USER = "User:manager", "User:controller", "User:admin"
PRINCIPALS: Final = (ANONYMOUS, CLIENT, DESCRIBER, OPERATOR, MANAGER, CONTROLLER, SUPER_USER)

GRANTED: Final = {
    CLIENT: ("orders", ("READ", "WRITE")),
    DESCRIBER: ("orders", ("DESCRIBE",)),
    OPERATOR: (None, ("DESCRIBE",)),
    MANAGER: (None, ("ALTER",)),
    CONTROLLER: (None, ("CLUSTER_ACTION",)),
}
"""The topic, or None for the cluster, and the operations that each principal is allowed."""

RULES: Final = "".join(
    f'[[allow]]\nprincipal = "{principal}"\noperations = {list(operations)}\n'
    + (f'topic = "{topic}"\n' if topic else "")
    for principal, (topic, operations) in GRANTED.items()
)

ALLOWED: Final = "allowed"
NO_TOPIC: Final = "no topic"
NOT_SERVED: Final = "not served"
CLIENTS, CONTROLLERS = "CLIENT", "CONTROLLER"
"""The kinds of listeners."""
_STRANGE: Final = "another-cluster"
_KEY: Final = ReplicaKey(7, UUID(int=7))
_META: Final = "__cluster_metadata"


@attrs.frozen
class Row:
    """`allowed` are the principals besides the super user; `denied` is how the others are told."""

    api: Api[Any, Any]
    request: Any
    allowed: frozenset[str]
    denied: str = ""


def rows(topic_id: UUID) -> dict[str, Row]:
    """What a client listener and a controller's listener decide alike; `topic_id` is that of the topic "orders"."""
    everybody = frozenset(PRINCIPALS)
    on_cluster = "error: cluster_authorization_failed"
    in_partitions = "partitions.error: topic_authorization_failed"
    no_voters = Endpoints()
    fetched = FetchPartition("orders", topic_id, 0, 0, 1000)

    def row(api: Api[Any, Any], request: Any, *allowed: str, denied: str = on_cluster) -> Row:
        return Row(api, request, everybody if ANONYMOUS in allowed else frozenset(allowed), denied)

    def alter(api: Api[Any, Any], request: Any) -> Row:
        return row(api, request, MANAGER)

    def between_replicas(api: Api[Any, Any], request: Any) -> Row:
        return row(api, request, CONTROLLER)

    reader = FetchRequest(max_wait_ms=0, partitions=(fetched,))
    named = MetadataRequest((MetadataTopic("orders"),))
    resource = "results.error: "
    return {
        "ApiVersions": row(apis.API_VERSIONS, ApiVersionsRequest(), ANONYMOUS),
        "SaslHandshake": row(apis.SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN"), ANONYMOUS),
        "SaslAuthenticate": row(apis.SASL_AUTHENTICATE, SaslAuthenticateRequest(b""), ANONYMOUS),
        "Produce": row(
            apis.PRODUCE,
            ProduceRequest(-1, 1000, (ProducePartition("orders", topic_id, 0, b""),)),
            CLIENT,
            denied=in_partitions,
        ),
        "Fetch": row(apis.FETCH, reader, CLIENT, denied=in_partitions),
        "Fetch of a replica": between_replicas(
            apis.FETCH, FetchRequest(_STRANGE, 7, 0, partitions=(FetchPartition(_META, UUID(int=1), 0, 0, 1000),))
        ),
        "ListOffsets": row(
            apis.LIST_OFFSETS,
            ListOffsetsRequest((ListOffsetsPartition("orders", 0, -1),)),
            CLIENT,
            DESCRIBER,
            denied=in_partitions,
        ),
        "Metadata": row(apis.METADATA, named, CLIENT, DESCRIBER, denied="topics.error: topic_authorization_failed"),
        "Metadata of all topics": row(apis.METADATA, MetadataRequest(None), CLIENT, DESCRIBER, denied=NO_TOPIC),
        "Metadata of no topic": row(apis.METADATA, MetadataRequest(()), ANONYMOUS),
        "FindCoordinator": row(
            apis.FIND_COORDINATOR,
            FindCoordinatorRequest(("a",)),
            ANONYMOUS,
        ),
        "InitProducerId": row(apis.INIT_PRODUCER_ID, InitProducerIdRequest(), CLIENT),
        "IncrementalAlterConfigs of a topic": row(
            apis.INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsRequest((AlteredResource(TOPIC, "orders", ()),), True),
            denied=resource + "topic_authorization_failed",
        ),
        "IncrementalAlterConfigs of a node": row(
            apis.INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsRequest((AlteredResource(BROKER, "1", ()),), True),
            denied=resource + "cluster_authorization_failed",
        ),
        "CreateTopics": row(
            apis.CREATE_TOPICS,
            CreateTopicsRequest((NewTopic("orders", 1, 1),), validate_only=True),
            denied=resource + "topic_authorization_failed",
        ),
        "DescribeCluster": row(apis.DESCRIBE_CLUSTER, DescribeClusterRequest(), ANONYMOUS),
        "DescribeQuorum": row(apis.DESCRIBE_QUORUM, DescribeQuorumRequest(_META), OPERATOR, MANAGER),
        "DescribeLogDirs": row(apis.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(), OPERATOR, MANAGER),
        "ListPartitionReassignments": row(
            apis.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(1000), OPERATOR, MANAGER
        ),
        "AlterPartitionReassignments": alter(
            apis.ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest(1000, ())
        ),
        "UpdateFeatures": alter(apis.UPDATE_FEATURES, UpdateFeaturesRequest((), 1000, True)),
        "AddRaftVoter": alter(apis.ADD_RAFT_VOTER, AddRaftVoterRequest(_STRANGE, 1000, 7, UUID(int=7), no_voters)),
        "RemoveRaftVoter": alter(apis.REMOVE_RAFT_VOTER, RemoveRaftVoterRequest(_STRANGE, 7, UUID(int=7))),
        "Vote": between_replicas(apis.VOTE, VoteRequest(_STRANGE, 1, _META, 0, _KEY, 1, UUID(int=1), 0, 0)),
        "BeginQuorumEpoch": between_replicas(
            apis.BEGIN_QUORUM_EPOCH, BeginQuorumEpochRequest(_STRANGE, 1, _META, 0, UUID(int=1), 7, 1)
        ),
        "EndQuorumEpoch": between_replicas(apis.END_QUORUM_EPOCH, EndQuorumEpochRequest(_STRANGE, _META, 0, 7, 1)),
        "FetchSnapshot": between_replicas(
            apis.FETCH_SNAPSHOT, FetchSnapshotRequest(_STRANGE, 7, 1000, _META, 0, 1, OffsetAndEpoch(1, 1), 0)
        ),
        "UpdateRaftVoter": between_replicas(
            apis.UPDATE_RAFT_VOTER,
            UpdateRaftVoterRequest(_STRANGE, 1, 7, UUID(int=7), no_voters, VersionRange(0, 1)),
        ),
    }


_OF_CLIENTS: Final = frozenset(
    {"Produce", "ListOffsets", "FindCoordinator", "InitProducerId", "DescribeLogDirs"}
    | {"Metadata", "Metadata of all topics", "Metadata of no topic"}
)
"""Kafka's controllers do not serve these; this project's nodes have the topic, so they do on each listener."""
_OF_CONTROLLERS: Final = frozenset({"Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "UpdateRaftVoter"})

_OF_OURS: Final = {
    (CONTROLLERS, "DescribeCluster"): ({OPERATOR, MANAGER}, "error: cluster_authorization_failed"),
}
_OF_KAFKAS: Final = {
    # Its brokers are replicas of each other.
    (CLIENTS, "Fetch of a replica"): ({CONTROLLER}, "partitions.error: topic_authorization_failed"),
    (CLIENTS, "FindCoordinator"): (set[str](), "coordinators.error: group_authorization_failed"),
    (CONTROLLERS, "Fetch"): ({CONTROLLER}, "error: cluster_authorization_failed"),
    (CONTROLLERS, "DescribeCluster"): ({MANAGER}, "error: cluster_authorization_failed"),
}

OURS_ONLY: Final = {
    "ReplicaSnapshots": {OPERATOR, MANAGER},
    "ReplicaSnapshots that are taken": {MANAGER},
    "TransferLeadership": {MANAGER},
    "DiscoverVoters": {CONTROLLER},
    "ReadIndex": {CONTROLLER},
}
"""Who may send the requests that Kafka does not have."""


def told_by_ours(kind: str, name: str, row: Row, principal: str) -> str:
    """What a node of this project tells that principal on that kind of listener."""
    if kind == CLIENTS and name in _OF_CONTROLLERS | {"Fetch of a replica"}:
        return NOT_SERVED
    return _told(principal, *_OF_OURS.get((kind, name), (row.allowed, row.denied)))


def told_by_kafka(kind: str, name: str, row: Row, principal: str) -> str:
    """What a node of Kafka 4.1 tells that principal on that kind of listener."""
    if name in (_OF_CONTROLLERS if kind == CLIENTS else _OF_CLIENTS):
        return NOT_SERVED
    return _told(principal, *_OF_KAFKAS.get((kind, name), (row.allowed, row.denied)))


def _told(principal: str, allowed: Set[str], denied: str) -> str:
    return ALLOWED if principal in allowed or principal == SUPER_USER else denied


def outcome_of(request: Any, response: Any) -> str:
    """ALLOWED, or where the response says that the request was not: "partitions.error: topic_authorization_failed"."""
    if isinstance(request, MetadataRequest) and request.topics is None and not response.topics:
        return NO_TOPIC
    return min(_refusals(response, ""), default=ALLOWED)


def _refusals(value: Any, path: str) -> set[str]:
    if isinstance(value, ErrorCode):
        return {f"{path}: {value.name}"} if value.name.endswith("_authorization_failed") else set()
    if isinstance(value, tuple):
        return {one for part in value for one in _refusals(part, path)}
    if not attrs.has(type(value)):
        return set()
    names = [field.name for field in attrs.fields(type(value))]
    return {one for name in names for one in _refusals(getattr(value, name), f"{path}.{name}".lstrip("."))}
