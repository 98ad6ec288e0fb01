"""Random values of the messages of clients and tools."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kraft_trio.wire.apis.api_versions import (
    ApiRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
)
from kraft_trio.wire.apis.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreationResult,
    NewTopic,
    TopicConfig,
)
from kraft_trio.wire.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft_trio.wire.apis.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kraft_trio.wire.apis.incremental_alter_configs import (
    AlteredConfig,
    AlteredResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceResult,
)
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft_trio.wire.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kraft_trio.wire.apis.metadata import (
    Broker,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    PartitionMetadata,
    TopicMetadata,
)
from kraft_trio.wire.apis.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.wire.strategies import (
    FOREVER,
    NO_ID,
    endpoint,
    errors,
    int8,
    int16,
    int32,
    int64,
    nodes_of_client_apis,
    records,
    texts,
    tuples,
    uuids,
)

VALUES: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("ApiVersions", "request"): st.builds(
        ApiVersionsRequest, client_software_name=texts, client_software_version=texts
    ),
    ("ApiVersions", "response"): st.builds(
        ApiVersionsResponse,
        error=errors,
        apis=tuples(st.builds(ApiRange, int16, int16, int16)),
        supported_features=tuples(st.builds(SupportedFeature, texts, int16, int16)),
        finalized_features=tuples(st.builds(FinalizedFeature, texts, int16)),
        finalized_features_epoch=int64,
    ),
    ("Produce", "request"): st.builds(
        ProduceRequest,
        acks=int16,
        timeout_ms=int32,
        partitions=tuples(st.builds(ProducePartition, texts, uuids, int32, st.none() | records)),
        transactional_id=st.none() | texts,
    ),
    ("Produce", "response"): st.builds(
        ProduceResponse,
        partitions=tuples(
            st.builds(
                ProducePartitionResponse,
                topic_name=texts,
                topic_id=uuids,
                partition=int32,
                error=errors,
                base_offset=int64,
                log_append_time_ms=int64,
                log_start_offset=int64,
                error_message=st.none() | texts,
                leader_id=int32,
                leader_epoch=int32,
            )
        ),
        node_endpoints=nodes_of_client_apis,
    ),
    ("CreateTopics", "request"): st.builds(
        CreateTopicsRequest,
        topics=tuples(
            st.builds(
                NewTopic,
                texts,
                int32,
                int16,
                tuples(st.tuples(int32, tuples(int32))),
                tuples(st.tuples(texts, st.none() | texts)),
            )
        ),
        timeout_ms=int32,
        validate_only=st.booleans(),
    ),
    ("CreateTopics", "response"): st.builds(
        CreateTopicsResponse,
        results=tuples(
            st.builds(
                CreationResult,
                texts,
                errors,
                st.none() | texts,
                uuids,
                int32,
                int16,
                st.none()
                | tuples(st.builds(TopicConfig, texts, st.none() | texts, st.booleans(), int8, st.booleans())),
                int16,
            )
        ),
    ),
    ("IncrementalAlterConfigs", "request"): st.builds(
        IncrementalAlterConfigsRequest,
        resources=tuples(
            st.builds(
                AlteredResource,
                int8,
                texts,
                tuples(st.builds(AlteredConfig, texts, int8, st.none() | texts)),
            )
        ),
        validate_only=st.booleans(),
    ),
    ("IncrementalAlterConfigs", "response"): st.builds(
        IncrementalAlterConfigsResponse,
        results=tuples(st.builds(ResourceResult, int8, texts, errors, st.none() | texts)),
    ),
    ("DescribeCluster", "request"): st.builds(DescribeClusterRequest, endpoint_type=int8),
    ("DescribeCluster", "response"): st.builds(
        DescribeClusterResponse,
        brokers=tuples(st.builds(Broker, int32, endpoint, st.none() | texts)),
        cluster_id=texts,
        controller_id=int32,
        endpoint_type=int8,
        error=errors,
        error_message=st.none() | texts,
    ),
    ("Metadata", "request"): st.builds(
        MetadataRequest,
        topics=st.none() | tuples(st.builds(MetadataTopic, texts, uuids)),
        allow_auto_topic_creation=st.booleans(),
    ),
    ("Metadata", "response"): st.builds(
        MetadataResponse,
        brokers=tuples(st.builds(Broker, int32, endpoint, st.none() | texts)),
        cluster_id=st.none() | texts,
        controller_id=int32,
        topics=tuples(
            st.builds(
                TopicMetadata,
                name=texts,
                topic_id=uuids,
                error=errors,
                is_internal=st.booleans(),
                partitions=tuples(
                    st.builds(
                        PartitionMetadata,
                        partition=int32,
                        error=errors,
                        leader_id=int32,
                        leader_epoch=int32,
                        replicas=tuples(int32),
                        in_sync_replicas=tuples(int32),
                        offline_replicas=tuples(int32),
                    )
                ),
            )
        ),
        error=errors,
    ),
    ("ListOffsets", "request"): st.builds(
        ListOffsetsRequest,
        partitions=tuples(st.builds(ListOffsetsPartition, texts, int32, int64, int32)),
        replica_id=int32,
        isolation_level=int8,
        timeout_ms=int32,
    ),
    ("ListOffsets", "response"): st.builds(
        ListOffsetsResponse,
        partitions=tuples(st.builds(ListOffsetsPartitionResponse, texts, int32, errors, int64, int64, int32)),
    ),
    ("InitProducerId", "request"): st.builds(InitProducerIdRequest, st.none() | texts, int32, int64, int16),
    ("InitProducerId", "response"): st.builds(InitProducerIdResponse, errors, int64, int16),
    ("FindCoordinator", "request"): st.builds(
        FindCoordinatorRequest, keys=tuples(texts, min_size=1, max_size=1), key_type=int8
    ),
    ("FindCoordinator", "response"): st.builds(
        FindCoordinatorResponse,
        coordinators=tuples(
            st.builds(Coordinator, texts, int32, st.none() | endpoint, errors, st.none() | texts),
            min_size=1,
            max_size=1,
        ),
    ),
    ("SaslHandshake", "request"): st.builds(SaslHandshakeRequest, texts),
    ("SaslHandshake", "response"): st.builds(SaslHandshakeResponse, errors, tuples(texts)),
    ("SaslAuthenticate", "request"): st.builds(SaslAuthenticateRequest, records),
    ("SaslAuthenticate", "response"): st.builds(SaslAuthenticateResponse, errors, st.none() | texts, records, int64),
}

ABSENT: dict[tuple[str, type], dict[str, tuple[int, int, Any]]] = {
    ("ApiVersions", ApiVersionsRequest): {
        "client_software_name": (3, FOREVER, ""),
        "client_software_version": (3, FOREVER, ""),
    },
    ("ApiVersions", ApiVersionsResponse): {
        "supported_features": (3, FOREVER, ()),
        "finalized_features": (3, FOREVER, ()),
        "finalized_features_epoch": (3, FOREVER, -1),
    },
    ("Produce", ProducePartition): {"topic_name": (3, 12, ""), "topic_id": (13, FOREVER, NO_ID)},
    ("Produce", ProducePartitionResponse): {
        "topic_name": (3, 12, ""),
        "topic_id": (13, FOREVER, NO_ID),
        "log_start_offset": (5, FOREVER, -1),
        "error_message": (8, FOREVER, None),
        "leader_id": (10, FOREVER, -1),
        "leader_epoch": (10, FOREVER, -1),
    },
    ("Produce", ProduceResponse): {"node_endpoints": (10, FOREVER, ())},
    ("DescribeCluster", DescribeClusterRequest): {"endpoint_type": (1, FOREVER, 1)},
    ("DescribeCluster", DescribeClusterResponse): {"endpoint_type": (1, FOREVER, 1)},
    ("Metadata", MetadataRequest): {"allow_auto_topic_creation": (4, FOREVER, True)},
    ("Metadata", MetadataTopic): {"topic_id": (10, FOREVER, NO_ID)},
    ("Metadata", MetadataResponse): {
        "cluster_id": (2, FOREVER, None),
        "controller_id": (1, FOREVER, -1),
        "error": (13, FOREVER, ErrorCode.none),
    },
    ("Metadata", Broker): {"rack": (1, FOREVER, None)},
    ("Metadata", TopicMetadata): {"topic_id": (10, FOREVER, NO_ID), "is_internal": (1, FOREVER, False)},
    ("Metadata", PartitionMetadata): {
        "leader_epoch": (7, FOREVER, -1),
        "offline_replicas": (5, FOREVER, ()),
    },
    ("ListOffsets", ListOffsetsRequest): {"isolation_level": (2, FOREVER, 0), "timeout_ms": (10, FOREVER, 0)},
    ("ListOffsets", ListOffsetsPartition): {"current_leader_epoch": (4, FOREVER, -1)},
    ("ListOffsets", ListOffsetsPartitionResponse): {"leader_epoch": (4, FOREVER, -1)},
    ("InitProducerId", InitProducerIdRequest): {
        "producer_id": (3, FOREVER, -1),
        "producer_epoch": (3, FOREVER, -1),
    },
    ("SaslAuthenticate", SaslAuthenticateResponse): {"session_lifetime_ms": (1, FOREVER, 0)},
    ("CreateTopics", CreationResult): {
        "topic_id": (7, FOREVER, NO_ID),
        "partition_count": (5, FOREVER, -1),
        "replication_factor": (5, FOREVER, -1),
        "configs": (5, FOREVER, ()),
        "config_error": (5, FOREVER, 0),
    },
    ("FindCoordinator", FindCoordinatorRequest): {"key_type": (1, FOREVER, 0)},
    ("FindCoordinator", Coordinator): {"key": (4, FOREVER, ""), "error_message": (1, FOREVER, None)},
}
"""See `values.ABSENT`."""
