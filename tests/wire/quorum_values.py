"""Random values of the quorum's own messages, Fetch among them, which replicas and clients send."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kraft_trio.protocol.gossip import Advertisement
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kraft_trio.wire.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignedPartition,
    ReassignmentResult,
)
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft_trio.wire.apis.describe_log_dirs import (
    DescribedPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirectory,
)
from kraft_trio.wire.apis.describe_quorum import (
    DescribedProducer,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumNode,
    QuorumReplica,
)
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest, DiscoverVotersResponse
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft_trio.wire.apis.fetch import (
    UNSUPPORTED_HIGH_WATERMARK,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
)
from kraft_trio.wire.apis.read_index import ReadIndexRequest, ReadIndexResponse
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft_trio.wire.apis.replica_snapshots import (
    ReplicaSnapshot,
    ReplicaSnapshotsRequest,
    ReplicaSnapshotsResponse,
)
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipRequest, TransferLeadershipResponse
from kraft_trio.wire.apis.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.wire.strategies import (
    FOREVER,
    NO_ID,
    endpoint,
    ends,
    errors,
    ids,
    int8,
    int16,
    int32,
    int64,
    keys,
    listeners,
    names,
    nodes_of_client_apis,
    records,
    texts,
    topic_response,
    tuples,
    uuids,
    version_ranges,
    voter_changes,
)

advertisements = st.builds(Advertisement, keys, int64, int32, listeners)

VALUES: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("AddRaftVoter", "request"): st.builds(
        AddRaftVoterRequest,
        cluster_id=st.none() | texts,
        timeout_ms=int32,
        voter_id=int32,
        voter_directory_id=uuids,
        listeners=listeners,
        ack_when_committed=st.booleans(),
    ),
    ("AddRaftVoter", "response"): st.builds(AddRaftVoterResponse, **voter_changes),
    ("RemoveRaftVoter", "request"): st.builds(
        RemoveRaftVoterRequest, cluster_id=st.none() | texts, voter_id=int32, voter_directory_id=uuids
    ),
    ("RemoveRaftVoter", "response"): st.builds(RemoveRaftVoterResponse, **voter_changes),
    ("UpdateRaftVoter", "request"): st.builds(
        UpdateRaftVoterRequest,
        cluster_id=st.none() | texts,
        current_leader_epoch=int32,
        voter_id=int32,
        voter_directory_id=uuids,
        listeners=listeners,
        kraft_versions=version_ranges,
    ),
    ("UpdateRaftVoter", "response"): st.builds(UpdateRaftVoterResponse, error=errors)
    | st.builds(
        UpdateRaftVoterResponse,
        error=errors,
        leader_id=ids,
        leader_epoch=int32,
        leader_endpoint=st.builds(Endpoint, names, st.integers(0, 2**16 - 1)),
    ),
    ("UpdateFeatures", "request"): st.builds(
        UpdateFeaturesRequest,
        updates=tuples(
            st.builds(FeatureUpdate, texts, int16, st.sampled_from([UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE]))
        ),
        timeout_ms=int32,
        validate_only=st.booleans(),
    ),
    ("UpdateFeatures", "response"): st.builds(
        UpdateFeaturesResponse,
        error=errors,
        error_message=st.none() | texts,
        results=tuples(st.builds(FeatureResult, texts, errors, st.none() | texts)),
    ),
    ("Vote", "request"): st.builds(
        VoteRequest,
        cluster_id=st.none() | texts,
        voter_id=int32,
        topic=texts,
        partition=int32,
        replica=keys,
        replica_epoch=int32,
        voter_directory_id=uuids,
        last_offset=int64,
        last_offset_epoch=int32,
        pre_vote=st.booleans(),
    ),
    ("Vote", "response"): topic_response(
        VoteResponse, leader_id=ids, leader_epoch=int32, vote_granted=st.booleans(), leader_endpoint=endpoint
    ),
    ("BeginQuorumEpoch", "request"): st.builds(
        BeginQuorumEpochRequest,
        cluster_id=st.none() | texts,
        voter_id=int32,
        topic=texts,
        partition=int32,
        voter_directory_id=uuids,
        leader_id=int32,
        leader_epoch=int32,
        leader_endpoints=listeners,
    ),
    ("BeginQuorumEpoch", "response"): topic_response(
        BeginQuorumEpochResponse, leader_id=ids, leader_epoch=int32, leader_endpoint=endpoint
    ),
    ("EndQuorumEpoch", "request"): st.builds(
        EndQuorumEpochRequest,
        cluster_id=st.none() | texts,
        topic=texts,
        partition=int32,
        leader_id=int32,
        leader_epoch=int32,
        preferred_successors=tuples(int32),
        preferred_candidates=tuples(keys),
        leader_endpoints=listeners,
    ),
    ("EndQuorumEpoch", "response"): topic_response(
        EndQuorumEpochResponse, leader_id=ids, leader_epoch=int32, leader_endpoint=endpoint
    ),
    ("Fetch", "request"): st.builds(
        FetchRequest,
        cluster_id=st.none() | texts,
        replica_id=int32,
        max_wait_ms=int32,
        min_bytes=int32,
        max_bytes=int32,
        isolation_level=int8,
        session_id=int32,
        session_epoch=int32,
        kraft_versions=st.none() | st.builds(VersionRange, int16, int16).filter(lambda it: it != VersionRange(-1, -1)),
        partitions=tuples(
            st.builds(
                FetchPartition,
                topic_name=texts,
                topic_id=uuids,
                partition=int32,
                fetch_offset=int64,
                max_bytes=int32,
                current_leader_epoch=int32,
                last_fetched_epoch=int32,
                log_start_offset=int64,
                replica_directory_id=uuids,
                high_watermark=int64,
            )
        ),
        listeners=listeners,
        read_round=int64,
        read_lease_wait_ms=int32,
        any_replica=st.booleans(),
    ),
    ("Fetch", "response"): st.builds(
        FetchResponse,
        error=errors,
        session_id=int32,
        partitions=tuples(
            st.builds(
                FetchPartitionResponse,
                topic_name=texts,
                topic_id=uuids,
                partition=int32,
                error=errors,
                high_watermark=int64,
                last_stable_offset=int64,
                log_start_offset=int64,
                records=records,
                diverging=st.none() | ends,
                leader_id=int32,
                leader_epoch=int32,
                snapshot_id=st.none() | ends,
                read_round=int64,
            )
        ),
        node_endpoints=nodes_of_client_apis,
    ),
    ("FetchSnapshot", "request"): st.builds(
        FetchSnapshotRequest,
        cluster_id=st.none() | texts,
        replica_id=int32,
        max_bytes=int32,
        topic=texts,
        partition=int32,
        current_leader_epoch=int32,
        snapshot_id=ends,
        position=int64,
        replica_directory_id=uuids,
    ),
    ("FetchSnapshot", "response"): topic_response(
        FetchSnapshotResponse,
        snapshot_id=ends,
        leader_id=ids,
        leader_epoch=int32,
        size=int64,
        position=int64,
        unaligned_records=records,
        leader_endpoint=endpoint,
    ),
    ("DescribeQuorum", "request"): st.builds(DescribeQuorumRequest, texts, int32, tuples(int64)),
    ("DescribeQuorum", "response"): topic_response(
        DescribeQuorumResponse,
        error_message=st.none() | texts,
        partition_error_message=st.none() | texts,
        leader_id=int32,
        leader_epoch=int32,
        high_watermark=int64,
        voters=tuples(st.builds(QuorumReplica, keys, int64, int64, int64)),
        observers=tuples(st.builds(QuorumReplica, keys, int64, int64, int64)),
        nodes=tuples(st.builds(QuorumNode, int32, listeners)),
        committed_voters=tuples(st.builds(QuorumReplica, keys, int64, int64, int64)),
        target_voters=tuples(st.builds(QuorumReplica, keys, int64, int64, int64)),
        producers=tuples(st.builds(DescribedProducer, int64, int16, int32)),
        reassignment_status=st.none() | texts,
    ),
    ("AlterPartitionReassignments", "request"): st.builds(
        AlterPartitionReassignmentsRequest,
        timeout_ms=int32,
        partitions=tuples(st.builds(ReassignedPartition, texts, int32, st.none() | tuples(keys))),
        allow_replication_factor_change=st.booleans(),
    ),
    ("AlterPartitionReassignments", "response"): st.builds(
        AlterPartitionReassignmentsResponse,
        error=errors,
        error_message=st.none() | texts,
        results=tuples(st.builds(ReassignmentResult, texts, int32, errors, st.none() | texts)),
    ),
    ("ListPartitionReassignments", "request"): st.builds(
        ListPartitionReassignmentsRequest,
        timeout_ms=int32,
        partitions=st.none() | tuples(st.tuples(texts, int32)).map(lambda pairs: tuple(sorted(pairs))),
    ),
    ("ListPartitionReassignments", "response"): st.builds(
        ListPartitionReassignmentsResponse,
        error=errors,
        error_message=st.none() | texts,
        reassignments=tuples(st.builds(OngoingReassignment, texts, int32, tuples(int32), tuples(int32), tuples(int32))),
    ),
    ("DescribeLogDirs", "request"): st.builds(
        DescribeLogDirsRequest,
        partitions=st.none() | tuples(st.tuples(texts, int32)).map(lambda pairs: tuple(sorted(pairs))),
    ),
    ("DescribeLogDirs", "response"): st.builds(
        DescribeLogDirsResponse,
        error=errors,
        directories=tuples(
            st.builds(
                LogDirectory,
                texts,
                tuples(st.builds(DescribedPartition, texts, int32, int64, int64, st.booleans())),
                errors,
                int64,
                int64,
                st.booleans(),
            )
        ),
    ),
    ("ReplicaSnapshots", "request"): st.builds(
        ReplicaSnapshotsRequest, cluster_id=st.none() | texts, take=st.booleans(), with_status=st.booleans()
    ),
    ("ReplicaSnapshots", "response"): st.builds(
        ReplicaSnapshotsResponse,
        error=errors,
        error_message=st.none() | texts,
        node=keys,
        has_state_machine=st.booleans(),
        log_start_offset=int64,
        log_end=ends,
        log_size_in_bytes=int64,
        high_watermark=int64,
        snapshots=tuples(st.builds(ReplicaSnapshot, ends, int64, int64)),
        took_ms=int64,
        status=st.none() | texts,
    ),
    ("DiscoverVoters", "request"): st.builds(
        DiscoverVotersRequest, cluster_id=texts, advertisements=tuples(advertisements)
    ),
    ("DiscoverVoters", "response"): st.builds(
        DiscoverVotersResponse, error=errors, advertisements=tuples(advertisements)
    ),
    ("ReadIndex", "request"): st.builds(ReadIndexRequest, cluster_id=texts),
    ("ReadIndex", "response"): st.builds(
        ReadIndexResponse,
        error=errors,
        leader_id=int32,
        leader_epoch=int32,
        read_index=int64,
        is_by_lease=st.booleans(),
    ),
    ("TransferLeadership", "request"): st.builds(
        TransferLeadershipRequest, cluster_id=st.none() | texts, voter_id=int32, timeout_ms=int32
    ),
    ("TransferLeadership", "response"): st.builds(
        TransferLeadershipResponse, error=errors, error_message=st.none() | texts
    ),
}

ABSENT: dict[tuple[str, type], dict[str, tuple[int, int, Any]]] = {
    ("Vote", VoteRequest): {
        "voter_id": (1, FOREVER, -1),
        "voter_directory_id": (1, FOREVER, NO_DIRECTORY_ID),
        "pre_vote": (2, FOREVER, False),
    },
    ("Vote", ReplicaKey): {"directory_id": (1, FOREVER, NO_DIRECTORY_ID)},
    ("Vote", VoteResponse): {"leader_endpoint": (1, FOREVER, None)},
    ("UpdateFeatures", UpdateFeaturesResponse): {"results": (0, 1, ())},
    ("DescribeLogDirs", LogDirectory): {
        "total_bytes": (4, FOREVER, -1),
        "usable_bytes": (4, FOREVER, -1),
        "is_cordoned": (5, FOREVER, False),
    },
    ("BeginQuorumEpoch", BeginQuorumEpochRequest): {
        "voter_id": (1, FOREVER, -1),
        "voter_directory_id": (1, FOREVER, NO_DIRECTORY_ID),
        "leader_endpoints": (1, FOREVER, Endpoints()),
    },
    ("BeginQuorumEpoch", BeginQuorumEpochResponse): {"leader_endpoint": (1, FOREVER, None)},
    ("EndQuorumEpoch", EndQuorumEpochRequest): {
        "preferred_successors": (0, 0, ()),
        "preferred_candidates": (1, FOREVER, ()),
        "leader_endpoints": (1, FOREVER, Endpoints()),
    },
    ("EndQuorumEpoch", EndQuorumEpochResponse): {"leader_endpoint": (1, FOREVER, None)},
    ("Fetch", FetchRequest): {
        "cluster_id": (12, FOREVER, None),
        "session_id": (7, FOREVER, 0),
        "session_epoch": (7, FOREVER, -1),
        "kraft_versions": (17, FOREVER, None),
        "listeners": (17, FOREVER, Endpoints()),
        "read_round": (17, FOREVER, 0),
        "read_lease_wait_ms": (17, FOREVER, 0),
        "any_replica": (12, FOREVER, False),
    },
    ("Fetch", FetchPartition): {
        "topic_name": (4, 12, ""),
        "topic_id": (13, FOREVER, NO_ID),
        "current_leader_epoch": (9, FOREVER, -1),
        "last_fetched_epoch": (12, FOREVER, -1),
        "log_start_offset": (5, FOREVER, -1),
        "replica_directory_id": (17, FOREVER, NO_DIRECTORY_ID),
        "high_watermark": (18, FOREVER, UNSUPPORTED_HIGH_WATERMARK),
    },
    ("Fetch", FetchResponse): {
        "error": (7, FOREVER, ErrorCode.none),
        "session_id": (7, FOREVER, 0),
        "node_endpoints": (16, FOREVER, ()),
    },
    ("Fetch", FetchPartitionResponse): {
        "topic_name": (4, 12, ""),
        "topic_id": (13, FOREVER, NO_ID),
        "log_start_offset": (5, FOREVER, -1),
        "diverging": (12, FOREVER, None),
        "leader_id": (12, FOREVER, -1),
        "leader_epoch": (12, FOREVER, -1),
        "snapshot_id": (12, FOREVER, None),
        "read_round": (17, FOREVER, 0),
    },
    ("FetchSnapshot", FetchSnapshotRequest): {"replica_directory_id": (1, FOREVER, NO_DIRECTORY_ID)},
    ("FetchSnapshot", FetchSnapshotResponse): {"leader_endpoint": (1, FOREVER, None)},
    ("DescribeQuorum", DescribeQuorumResponse): {
        "error_message": (2, FOREVER, None),
        "partition_error_message": (2, FOREVER, None),
        "nodes": (2, FOREVER, ()),
        "committed_voters": (2, FOREVER, ()),
        "target_voters": (2, FOREVER, ()),
        "reassignment_status": (2, FOREVER, None),
        "producers": (2, FOREVER, ()),
    },
    ("DescribeQuorum", DescribeQuorumRequest): {"producer_ids": (2, FOREVER, ())},
    ("AlterPartitionReassignments", AlterPartitionReassignmentsRequest): {
        "allow_replication_factor_change": (1, FOREVER, True),
    },
    ("DescribeQuorum", QuorumReplica): {
        "last_fetch_timestamp_ms": (1, FOREVER, -1),
        "last_caught_up_timestamp_ms": (1, FOREVER, -1),
    },
    ("DescribeQuorum", ReplicaKey): {"directory_id": (2, FOREVER, NO_DIRECTORY_ID)},
}
"""See `values.ABSENT`."""
