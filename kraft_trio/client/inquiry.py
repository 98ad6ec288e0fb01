"""Finding the leader: any node is asked, and says who leads or what it knows instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import attrs
import trio

from kraft_trio.client.connecting import ask, drop, open_connection
from kraft_trio.client.quorum_description import NodeView, QuorumDescription, ReplicaState
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import DESCRIBE_CLUSTER, DESCRIBE_QUORUM, METADATA
from kraft_trio.wire.apis.describe_cluster import CONTROLLERS, DescribeClusterRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse, QuorumReplica
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataResponse
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network

DEFAULT_TOPIC: Final = "__cluster_metadata"
DEFAULT_TOPIC_ID: Final = UUID(int=1)


@attrs.frozen
class NodeAnswer:
    """What one node said.  A node that does not lead may have passed the question on: then it has a description too."""

    view: NodeView
    cluster_id: str | None = None
    leader: Endpoint | None = None
    """Where the leader is, as far as the node tells."""
    description: QuorumDescription | None = None
    """The leader's."""
    topic_name: str = DEFAULT_TOPIC
    topic_id: UUID = DEFAULT_TOPIC_ID


class Inquiry:
    """Questions to the nodes of a quorum.  Holds no connection between calls."""

    def __init__(
        self, bootstrap: Sequence[Endpoint], client_id: str, *, request_timeout_ms: int, network: Network
    ) -> None:
        self._bootstrap = tuple(dict.fromkeys(bootstrap))
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._network = network

    async def connect(self, endpoint: Endpoint) -> Connection:
        """The caller closes it.  Raises NetworkError, UnsupportedVersionError."""
        return await open_connection(self._network, endpoint, self._client_id, self._request_timeout_ms)

    async def ask(self) -> list[NodeAnswer]:
        """The bootstrap nodes' answers, and those of the leaders they name; ends early with that of a leader."""
        answers = await self._ask_all(self._bootstrap)
        if any(answer.description is not None for answer in answers):
            return answers
        named = dict.fromkeys(answer.leader for answer in answers if answer.leader is not None)
        further = [endpoint for endpoint in named if endpoint not in self._bootstrap]
        return [*answers, *await self._ask_all(further)]

    async def _ask_all(self, endpoints: Sequence[Endpoint]) -> list[NodeAnswer]:
        """Ask all of them at once; the answers in the order of the endpoints, without those a leader forestalled."""
        answers: dict[Endpoint, NodeAnswer] = {}

        async def ask_one(endpoint: Endpoint) -> None:
            answers[endpoint] = answer = await self._ask_node(endpoint)
            if answer.description is not None:
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for endpoint in endpoints:
                nursery.start_soon(ask_one, endpoint)
        return [answers[endpoint] for endpoint in endpoints if endpoint in answers]

    async def _ask_node(self, endpoint: Endpoint) -> NodeAnswer:
        try:
            connection = await self.connect(endpoint)
            try:
                metadata = await self._ask_who_is_there(connection)
                request = DescribeQuorumRequest(_topic_name(metadata))
                response = await ask(connection, DESCRIBE_QUORUM, request, self._request_timeout_ms)
            finally:
                await drop(connection)
        except (NetworkError, UnsupportedVersionError) as error:
            return NodeAnswer(NodeView(endpoint, str(error).removeprefix(f"{endpoint}: ")))
        topic_id = metadata.topics[0].topic_id if metadata is not None and len(metadata.topics) == 1 else None
        answer = _answer_of(endpoint, metadata, response)
        return attrs.evolve(answer, topic_name=request.topic, topic_id=topic_id or DEFAULT_TOPIC_ID)

    async def _ask_who_is_there(self, connection: Connection) -> MetadataResponse | None:
        """Cluster id, nodes, leader and topic; Kafka's controllers tell the first three, by DescribeCluster (KIP-919).

        None from a node that serves neither.
        """
        try:
            return await ask(connection, METADATA, MetadataRequest(topics=None), self._request_timeout_ms)
        except UnsupportedVersionError:
            pass
        try:
            request = DescribeClusterRequest(CONTROLLERS)
            told = await ask(connection, DESCRIBE_CLUSTER, request, self._request_timeout_ms)
        except UnsupportedVersionError:
            return None
        return MetadataResponse(told.brokers, told.cluster_id, told.controller_id) if not told.error else None


def _topic_name(metadata: MetadataResponse | None) -> str:
    """The name of the quorum's topic: the one that the node has, Kafka's own where it does not tell."""
    if metadata is not None and len(metadata.topics) == 1 and metadata.topics[0].name:
        return metadata.topics[0].name
    return DEFAULT_TOPIC


def _answer_of(endpoint: Endpoint, metadata: MetadataResponse | None, response: DescribeQuorumResponse) -> NodeAnswer:
    cluster_id = None if metadata is None else metadata.cluster_id
    error = response.error if response.error != ErrorCode.none else response.partition_error
    # No leader has epoch 0: it and id 0 stand in Kafka's answers where nothing is told.
    leader_epoch = response.leader_epoch if response.leader_epoch > 0 else None
    leader_id = response.leader_id if response.leader_id >= 0 and leader_epoch is not None else None
    if error == ErrorCode.none and leader_id is not None and leader_epoch is not None:
        description = _description(cluster_id, response)
        leader = _broker(metadata, leader_id) or _default_endpoint(description, leader_id)
        return NodeAnswer(NodeView(endpoint, None, leader_id, leader_epoch), cluster_id, leader, description)
    if error not in (ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available):
        message = response.error_message or response.partition_error_message
        return NodeAnswer(NodeView(endpoint, f"answers {error.name}" + (f": {message}" if message else "")), cluster_id)
    leader = None
    if metadata is not None:
        known_id, known_epoch = _leader_in(metadata)
        leader_id = known_id if leader_id is None else leader_id
        leader_epoch = known_epoch if leader_epoch is None else leader_epoch
        leader = _broker(metadata, leader_id)
    return NodeAnswer(NodeView(endpoint, None, leader_id, leader_epoch), cluster_id, leader)


def _broker(metadata: MetadataResponse | None, node_id: int | None) -> Endpoint | None:
    """Where that node is for those who come in where we did."""
    brokers = () if metadata is None else metadata.brokers
    return next((broker.endpoint for broker in brokers if broker.id == node_id), None)


def _default_endpoint(description: QuorumDescription, node_id: int) -> Endpoint | None:
    return next((endpoint for _, endpoint in description.endpoints.get(node_id, ())), None)


def _leader_in(metadata: MetadataResponse) -> tuple[int | None, int | None]:
    """The leader's id and epoch, as far as the partition's metadata tell them; controllers tell its id alone."""
    for topic in metadata.topics:
        for partition in topic.partitions:
            leader_id = partition.leader_id if partition.leader_id >= 0 else None
            return leader_id, partition.leader_epoch if partition.leader_epoch >= 0 else None
    return metadata.controller_id if metadata.controller_id >= 0 else None, None


def _description(cluster_id: str | None, response: DescribeQuorumResponse) -> QuorumDescription:
    return QuorumDescription(
        cluster_id=cluster_id,
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        high_watermark=response.high_watermark,
        voters=tuple(_state(replica) for replica in response.voters),
        observers=tuple(_state(replica) for replica in response.observers),
        endpoints={node.id: node.endpoints for node in response.nodes},
        committed_voters=tuple(_state(replica) for replica in response.committed_voters),
    )


def _state(replica: QuorumReplica) -> ReplicaState:
    return ReplicaState(
        replica.key, replica.log_end_offset, replica.last_fetch_timestamp_ms, replica.last_caught_up_timestamp_ms
    )
