"""What one node answered to a client that looks for the leader."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

import attrs

from kraft_trio.client.quorum_description import NodeView, QuorumDescription, ReplicaState
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.wire.apis.describe_quorum import CLUSTER_METADATA, DescribeQuorumResponse, QuorumReplica
from kraft_trio.wire.apis.metadata import MetadataResponse
from kraft_trio.wire.error_codes import ErrorCode

DEFAULT_TOPIC: Final = CLUSTER_METADATA
DEFAULT_TOPIC_ID: Final = UUID(int=1)

NOBODY: Final[Mapping[int, Endpoints]] = MappingProxyType({})


@attrs.frozen
class NodeAnswer:
    """The answer of one node.  A follower that forwards the question answers with the leader's description."""

    view: NodeView
    cluster_id: str | None = None
    leader: Endpoint | None = None
    """Where the leader listens, if the node tells."""
    description: QuorumDescription | None = None
    """The leader's description of the quorum, if there is a leader to give it."""
    topic_name: str = DEFAULT_TOPIC
    topic_id: UUID = DEFAULT_TOPIC_ID

    @property
    def nodes(self) -> tuple[Endpoint, ...]:
        """Where the leader and the voters listen, as far as the description tells."""
        told = [] if self.leader is None else [self.leader]
        if self.description is not None:
            told += [endpoint for endpoints in self.description.endpoints.values() for _, endpoint in endpoints]
        return tuple(dict.fromkeys(told))


def topic_name_in(metadata: MetadataResponse | None) -> str:
    """The name of the node's only topic, or Kafka's own name for it if the node does not tell."""
    if metadata is not None and len(metadata.topics) == 1 and metadata.topics[0].name:
        return metadata.topics[0].name
    return DEFAULT_TOPIC


def topic_id_in(metadata: MetadataResponse | None) -> UUID:
    """The id of the node's only topic, or Kafka's own one if the node does not tell."""
    return metadata.topics[0].topic_id if metadata is not None and len(metadata.topics) == 1 else DEFAULT_TOPIC_ID


def answer_of(endpoint: Endpoint, metadata: MetadataResponse | None, response: DescribeQuorumResponse) -> NodeAnswer:
    """What the two responses of the node at `endpoint` say together."""
    topic_name, topic_id = topic_name_in(metadata), topic_id_in(metadata)
    cluster_id = None if metadata is None else metadata.cluster_id
    error = response.error if response.error != ErrorCode.none else response.partition_error
    # No leader has epoch 0: Kafka's answers contain epoch 0 and leader 0 when they tell nothing.
    leader_epoch = response.leader_epoch if response.leader_epoch > 0 else None
    leader_id = response.leader_id if response.leader_id >= 0 and leader_epoch is not None else None
    if error == ErrorCode.none and leader_id is not None and leader_epoch is not None:
        description = _description(cluster_id, metadata, response)
        leader = _broker(metadata, leader_id) or _default_endpoint(description, leader_id)
        view = NodeView(endpoint, None, leader_id, leader_epoch)
        return NodeAnswer(view, cluster_id, leader, description, topic_name, topic_id)
    if error not in (ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available):
        message = response.error_message or response.partition_error_message
        problem = f"answers {error.name}" + (f": {message}" if message else "")
        named = None
        if error == ErrorCode.cluster_authorization_failed:
            named = _broker(metadata, _leader_of_topic(metadata))
            if named is None and _tells_topic(metadata):
                problem = f"knows no leader, and {problem}"
        view = NodeView(endpoint, problem)
        return NodeAnswer(view, cluster_id, named, topic_name=topic_name, topic_id=topic_id)
    leader = None
    if metadata is not None:
        known_id, known_epoch = _leader_in(metadata)
        leader_id = known_id if leader_id is None else leader_id
        leader_epoch = known_epoch if leader_epoch is None else leader_epoch
        leader = _broker(metadata, leader_id)
    view = NodeView(endpoint, None, leader_id, leader_epoch)
    return NodeAnswer(view, cluster_id, leader, None, topic_name, topic_id)


def _broker(metadata: MetadataResponse | None, node_id: int | None) -> Endpoint | None:
    """Where that node listens for clients of the listener that was asked."""
    brokers = () if metadata is None else metadata.brokers
    return next((broker.endpoint for broker in brokers if broker.id == node_id), None)


def _default_endpoint(description: QuorumDescription, node_id: int) -> Endpoint | None:
    return next((endpoint for _, endpoint in description.endpoints.get(node_id, ())), None)


def _leader_in(metadata: MetadataResponse) -> tuple[int | None, int | None]:
    """The leader's id and epoch, if the partition's metadata tell them; controllers tell only the id."""
    for topic in metadata.topics:
        for partition in topic.partitions:
            leader_id = partition.leader_id if partition.leader_id >= 0 else None
            return leader_id, partition.leader_epoch if partition.leader_epoch >= 0 else None
    return metadata.controller_id if metadata.controller_id >= 0 else None, None


def _tells_topic(metadata: MetadataResponse | None) -> bool:
    """Whether the client may know of the topic."""
    return metadata is not None and any(topic.partitions for topic in metadata.topics)


def _leader_of_topic(metadata: MetadataResponse | None) -> int | None:
    """The leader that the node names to those who may know its topic."""
    partitions = [] if metadata is None else [one for topic in metadata.topics for one in topic.partitions]
    return next((partition.leader_id for partition in partitions if partition.leader_id >= 0), None)


def _description(
    cluster_id: str | None, metadata: MetadataResponse | None, response: DescribeQuorumResponse
) -> QuorumDescription:
    endpoints = {node.id: node.endpoints for node in response.nodes}
    voter_ids = {voter.key.id for voter in response.voters}
    # Our leader describes observers too.  Kafka's names them elsewhere.
    of_observers = _registered(metadata, endpoints.get(response.leader_id, Endpoints()), response.leader_id)
    of_observers |= {id: found for id, found in endpoints.items() if id not in voter_ids}
    return QuorumDescription(
        cluster_id=cluster_id,
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        high_watermark=response.high_watermark,
        voters=tuple(_state(replica) for replica in response.voters),
        observers=tuple(_state(replica, of_observers) for replica in response.observers),
        endpoints=endpoints,
        committed_voters=tuple(_state(replica) for replica in response.committed_voters),
        target_voters=tuple(_state(replica) for replica in response.target_voters),
        reassignment_status=response.reassignment_status,
    )


def _registered(metadata: MetadataResponse | None, of_leader: Endpoints, leader_id: int) -> dict[int, Endpoints]:
    """Where nodes listen, observers too, by id: each at the listener that was asked."""
    leader = _broker(metadata, leader_id)
    name = next((name for name, endpoint in of_leader if endpoint == leader), None)
    if metadata is None or name is None:
        return {}
    return {broker.id: Endpoints([(name, broker.endpoint)]) for broker in metadata.brokers}


def _state(replica: QuorumReplica, listeners: Mapping[int, Endpoints] = NOBODY) -> ReplicaState:
    return ReplicaState(
        replica.key,
        replica.log_end_offset,
        replica.last_fetch_timestamp_ms,
        replica.last_caught_up_timestamp_ms,
        listeners.get(replica.key.id, Endpoints()),
    )
