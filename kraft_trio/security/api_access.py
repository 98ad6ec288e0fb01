"""Which operation on which resource each request needs, as Kafka's KafkaApis and ControllerApis ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from kraft_trio.security.authorization import Operation, ResourceType
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.create_topics import CreateTopicsRequest
from kraft_trio.wire.apis.describe_cluster import DescribeClusterRequest
from kraft_trio.wire.apis.describe_log_dirs import DescribeLogDirsRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.find_coordinator import FindCoordinatorRequest
from kraft_trio.wire.apis.incremental_alter_configs import TOPIC, IncrementalAlterConfigsRequest
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest
from kraft_trio.wire.apis.list_offsets import ListOffsetsRequest
from kraft_trio.wire.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.apis.produce import ProduceRequest
from kraft_trio.wire.apis.read_index import ReadIndexRequest
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipRequest
from kraft_trio.wire.apis.update_features import UpdateFeaturesRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest


@attrs.frozen
class Need:
    """A topic here is the only topic of the quorum."""

    operation: Operation
    type: ResourceType = ResourceType.cluster


OF_REPLICAS: Final = Need(Operation.cluster_action)
"""What a request between replicas needs, one that a node passes on, and one without a row of its own."""
_ALTER: Final = Need(Operation.alter)
_DESCRIBE: Final = Need(Operation.describe)

NEEDS: Final[Mapping[type, Need | None]] = {
    ApiVersionsRequest: None,
    SaslHandshakeRequest: None,  # The answer to these two is always that they come too late.
    SaslAuthenticateRequest: None,
    FindCoordinatorRequest: None,  # There are no groups, and the answer says nothing else.
    VoteRequest: OF_REPLICAS,
    BeginQuorumEpochRequest: OF_REPLICAS,
    EndQuorumEpochRequest: OF_REPLICAS,
    FetchSnapshotRequest: OF_REPLICAS,
    UpdateRaftVoterRequest: OF_REPLICAS,
    DiscoverVotersRequest: OF_REPLICAS,
    ReadIndexRequest: OF_REPLICAS,
    CreateTopicsRequest: Need(Operation.create),
    AddRaftVoterRequest: _ALTER,
    RemoveRaftVoterRequest: _ALTER,
    UpdateFeaturesRequest: _ALTER,
    AlterPartitionReassignmentsRequest: _ALTER,
    TransferLeadershipRequest: _ALTER,
    ListPartitionReassignmentsRequest: _DESCRIBE,
    DescribeQuorumRequest: _DESCRIBE,
    DescribeLogDirsRequest: _DESCRIBE,
    InitProducerIdRequest: Need(Operation.idempotent_write),
    ProduceRequest: Need(Operation.write, ResourceType.topic),
    ListOffsetsRequest: Need(Operation.describe, ResourceType.topic),
    MetadataRequest: Need(Operation.describe, ResourceType.topic),
}


def need_of(request: Any, *, is_at_controller: bool) -> Need | None:
    """What the request needs on a listener of controllers or on another; None if everybody may send it."""
    match request:
        case DescribeClusterRequest():
            # Kafka's controllers ask for ALTER, which an operator who only looks should not need.
            return _DESCRIBE if is_at_controller else None
        case FetchRequest():
            return OF_REPLICAS if request.replica_id >= 0 else Need(Operation.read, ResourceType.topic)
        case IncrementalAlterConfigsRequest():
            is_about_topics = all(one.type == TOPIC for one in request.resources)
            return Need(Operation.alter_configs, ResourceType.topic if is_about_topics else ResourceType.cluster)
        case MetadataRequest(topics=()):
            return None  # It asks for the nodes only.
        case ReplicaSnapshotsRequest():
            return _ALTER if request.take else _DESCRIBE
        case _:
            return NEEDS.get(type(request), OF_REPLICAS)
