"""Asks one node to describe its quorum, whether it is ours, or a controller or broker of Apache Kafka's."""

from __future__ import annotations

import attrs

from kraft_trio.client.connecting import ask
from kraft_trio.client.node_answer import DEFAULT_TOPIC, DEFAULT_TOPIC_ID, topic_name_in
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.voter_set import KRAFT_VERSION
from kraft_trio.wire.api import API_VERSIONS, DESCRIBE_QUORUM, FETCH
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.metadata import Broker, MetadataResponse
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode


async def describe_quorum(
    connection: Connection, metadata: MetadataResponse | None, timeout_ms: int
) -> tuple[MetadataResponse | None, DescribeQuorumResponse]:
    """Ask for the quorum, each question for `timeout_ms`.  Returns the answer, and `metadata` as the answer needs it.

    A broker of Kafka's may have one topic, as our nodes do; that is not the quorum's, and is then taken out of
    `metadata`.  Kafka's controllers name only registered ones; their leader is added if it is another node.

    Raises NetworkError, UnsupportedVersionError.
    """
    request = DescribeQuorumRequest(topic_name_in(metadata))
    response = await ask(connection, DESCRIBE_QUORUM, request, timeout_ms)
    if metadata is not None and metadata.topics:
        if request.topic == DEFAULT_TOPIC or _error(response) is not ErrorCode.unknown_topic_or_partition:
            return metadata, response
        metadata = attrs.evolve(metadata, topics=())
        response = await ask(connection, DESCRIBE_QUORUM, DescribeQuorumRequest(DEFAULT_TOPIC), timeout_ms)
    if metadata is not None and _error(response) is ErrorCode.not_leader_or_follower:
        metadata = await _with_leader(connection, metadata, timeout_ms)
    return metadata, response


async def known_epoch(connection: Connection, cluster_id: str | None, timeout_ms: int) -> int | None:
    """The epoch that a controller of Kafka's names in the refusal of a Fetch, also without a leader; None if it does
    not answer, or denies it.
    """
    try:
        answer = await ask(connection, FETCH, refused_fetch(cluster_id), timeout_ms)
    except (NetworkError, UnsupportedVersionError):
        return None
    return max((partition.leader_epoch for partition in answer.partitions if partition.leader_epoch >= 0), default=None)


async def finalized_kraft_version(connection: Connection, timeout_ms: int) -> int | None:
    """The level that the node's log has; 0 if it has none, as before KIP-853; None if it does not answer."""
    try:
        answer = await ask(connection, API_VERSIONS, ApiVersionsRequest(), timeout_ms)
    except (NetworkError, UnsupportedVersionError):
        return None
    return next((one.level for one in answer.finalized_features if one.name == KRAFT_VERSION), 0)


def refused_fetch(cluster_id: str | None) -> FetchRequest:
    """No leader has epoch 0, so the fetch is refused, and the refusal names leader and epoch."""
    partition = FetchPartition(DEFAULT_TOPIC, DEFAULT_TOPIC_ID, 0, 0, 1, current_leader_epoch=0, last_fetched_epoch=0)
    return FetchRequest(cluster_id, max_wait_ms=0, partitions=(partition,))


def _error(response: DescribeQuorumResponse) -> ErrorCode:
    return response.error if response.error is not ErrorCode.none else response.partition_error


async def _with_leader(connection: Connection, metadata: MetadataResponse, timeout_ms: int) -> MetadataResponse:
    """Add the leader to the answer.  Every node names it in answers to Fetch (KIP-853), registered or not."""
    if metadata.controller_id in (broker.id for broker in metadata.brokers):
        return metadata
    try:
        answer = await ask(connection, FETCH, refused_fetch(metadata.cluster_id), timeout_ms)
    except (NetworkError, UnsupportedVersionError):
        return metadata
    leader_ids = {partition.leader_id for partition in answer.partitions}
    found = tuple(Broker(id, endpoint) for id, endpoint in answer.node_endpoints if id in leader_ids)
    if not found:
        return metadata
    return attrs.evolve(metadata, brokers=(*metadata.brokers, *found), controller_id=found[0].id)
