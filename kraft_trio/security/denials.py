"""The response to a request that is not allowed, in the shape that its API has for errors."""

from __future__ import annotations

from typing import Any

from kraft_trio.security.authorization import ResourceType
from kraft_trio.wire.api import Api
from kraft_trio.wire.apis.create_topics import CreateTopicsRequest, CreateTopicsResponse, CreationResult
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceResult,
)
from kraft_trio.wire.apis.list_offsets import ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataResponse, TopicMetadata
from kraft_trio.wire.apis.produce import ProducePartitionResponse, ProduceRequest, ProduceResponse
from kraft_trio.wire.error_codes import ErrorCode

ERRORS = {
    ResourceType.cluster: ErrorCode.cluster_authorization_failed,
    ResourceType.topic: ErrorCode.topic_authorization_failed,
}


def denial(api: Api[Any, Any], request: Any, error: ErrorCode, reason: str) -> Any:
    """None for a request without a response.  `reason` names the principal, for operators who look at the quorum."""
    match request:
        case DescribeQuorumRequest():
            return DescribeQuorumResponse(error, reason)
        case ProduceRequest():
            failed = ProducePartitionResponse.failed(error)
            return None if request.acks == 0 else ProduceResponse(tuple(map(failed.about, request.partitions)))
        case FetchRequest():
            whole = error if error == ErrorCode.cluster_authorization_failed else ErrorCode.none
            asked = [(one.topic_name, one.topic_id, one.partition) for one in request.partitions]
            return FetchResponse(whole, partitions=tuple(FetchPartitionResponse(*one, error) for one in asked))
        case ListOffsetsRequest():
            return ListOffsetsResponse(
                tuple(ListOffsetsPartitionResponse(one.topic, one.partition, error) for one in request.partitions)
            )
        case MetadataRequest():
            return MetadataResponse(
                topics=tuple(TopicMetadata(one.name, one.topic_id, error) for one in request.topics or ())
            )
        case CreateTopicsRequest():
            # Kafka names the topics, which a principal may be allowed one by one there.
            denied = ErrorCode.topic_authorization_failed
            names = dict.fromkeys(topic.name for topic in request.topics)
            return CreateTopicsResponse(tuple(CreationResult(name, denied) for name in names))
        case IncrementalAlterConfigsRequest():
            return IncrementalAlterConfigsResponse(
                tuple(ResourceResult(one.type, one.name, error) for one in request.resources)
            )
        case _:
            return api.error_response(error, None)
