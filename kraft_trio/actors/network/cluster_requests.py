"""Metadata and DescribeCluster: the nodes, the topic and the leader of its partition.

The nodes are the voters, and the observers that may become voters, as Kafka names all its brokers and controllers.
Only the leader knows the observers, from their Fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.peers.answers import Answer, Awaited, Ready, Worked
from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply, deliver
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.messages import DescribeQuorumReceived, QuorumView
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.wire.api import DESCRIBE_QUORUM
from kraft_trio.wire.apis.describe_cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.metadata import (
    Broker,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    PartitionMetadata,
    TopicMetadata,
)
from kraft_trio.wire.error_codes import ErrorCode

ResponseT = TypeVar("ResponseT")

Nodes = Mapping[int, Endpoints]
"""The listeners of nodes, by id."""

NO_NODES: Final[Nodes] = {}


class ClusterRequests:
    """One topic with one partition, led by the leader of the quorum.

    See docs/explanation/decisions.md#one-topic-one-partition.
    """

    def __init__(self, context: NodeContext, view: Published[QuorumView], forwarder: NetworkClient) -> None:
        """`forwarder` asks the leader for the observers."""
        self._key = context.key
        self._cluster_id = context.cluster_id
        self._config = context.config
        self._kafka = context.kafka
        self._view = view
        self._forwarder = forwarder
        self._question = trio.Lock()
        """Held while the leader is asked for the nodes."""
        self._begun_questions = 0
        self._newest_question = 0
        """The number of the one that has been answered, or could not be."""
        self._newest_nodes = NO_NODES

    async def describe_cluster(self, request: DescribeClusterRequest, listener_name: str) -> Answer:
        """The nodes that Metadata names.  Each is a broker and a controller, whichever the client asks for."""
        if request.endpoint_type not in (BROKERS, CONTROLLERS):
            message = (
                f"endpoint type {request.endpoint_type}: expected {BROKERS} (brokers) or {CONTROLLERS} (controllers)"
            )
            return Ready(DescribeClusterResponse(error=ErrorCode.unsupported_endpoint_type, error_message=message))

        def respond(observers: Nodes) -> DescribeClusterResponse:
            view = self._view.value
            return DescribeClusterResponse(
                brokers=_brokers(self._endpoints(view, listener_name, {**observers, **_nodes_of(view)})),
                cluster_id=self._cluster_id,
                controller_id=-1 if view.leader_id is None else view.leader_id,
                endpoint_type=request.endpoint_type,
            )

        return await self._with_observers(respond, listener_name)

    async def metadata(self, request: MetadataRequest, listener_name: str) -> Answer:
        """Name the observers to a client that asks for no topic, as Kafka's admin client does.

        A client that asks for the topic wants its leader, and must not wait for the leader to answer.

        Nodes that serve no clients are not named: librdkafka ends an idempotent producer for good while it is connected
        to nobody else.
        """

        def respond(observers: Nodes) -> MetadataResponse:
            view = self._view.value
            serving = self._serving({**observers, **_nodes_of(view)}, view.leader_id, listener_name)
            return MetadataResponse(
                brokers=_brokers(self._endpoints(view, listener_name, serving)),
                cluster_id=self._cluster_id,
                controller_id=-1 if view.leader_id is None else view.leader_id,
                topics=self._topics(
                    request, view, tuple(sorted(self._endpoints(view, listener_name, _nodes_of(view))))
                ),
            )

        return Ready(respond(NO_NODES)) if request.topics != () else await self._with_observers(respond, listener_name)

    # The nodes

    async def _with_observers(self, respond: Callable[[Nodes], ResponseT], listener_name: str) -> Answer:
        """Answer when the leader has said which nodes there are.

        A node that does not lead asks it only for a client listener.  Of controllers, clients ask the leader itself.
        """
        view = self._view.value
        request = DescribeQuorumRequest(self._config.topic_name)
        reply: Reply[DescribeQuorumResponse] = Reply()
        if await deliver(view.leader_mailbox, DescribeQuorumReceived(request, reply)):
            return Awaited((reply,), lambda described: respond(_nodes_in(described[0])))
        if self._leader_endpoint() is None or listener_name in self._config.controller_listener_names:
            return Ready(respond(NO_NODES))

        async def ask() -> ResponseT:
            return respond(await self._nodes_known_to_leader(request))

        return Worked(ask)

    def _leader_endpoint(self) -> Endpoint | None:
        return self._view.value.leader_endpoint(self._config.controller_listener_name)

    async def _nodes_known_to_leader(self, request: DescribeQuorumRequest) -> Nodes:
        """Ask the leader.  Calls during a request share the next one.

        Any client may ask.  A flood of requests would otherwise delay everything else that is passed on to the leader.
        """
        wanted = self._begun_questions + 1
        async with self._question:
            if self._newest_question < wanted:
                self._begun_questions += 1
                number, nodes = self._begun_questions, NO_NODES
                leader = self._leader_endpoint()  # Perhaps another one than when this question came.
                if leader is not None:
                    with suppress(NetworkError, UnsupportedVersionError):
                        nodes = _nodes_in(
                            await self._forwarder.request(
                                leader, DESCRIBE_QUORUM, request, self._config.request_timeout_ms
                            )
                        )
                self._newest_question, self._newest_nodes = number, nodes
            return self._newest_nodes

    def _serving(self, nodes: Nodes, leader_id: int | None, listener_name: str) -> Nodes:
        """The nodes known to serve clients: they do not run Kafka, and have a listener for clients.

        The voters of a static quorum are known by one listener only, so that nobody may have the clients'.  This voter
        has it, even if the voters record does not say so yet: a client must not know of the leader alone.
        """
        serving = {id: told for id, told in nodes.items() if id == leader_id or not self._kafka.is_known(id)}
        if listener_name in self._config.controller_listener_names:
            return serving
        reached = {id for id, told in serving.items() if told.get(listener_name) is not None}
        if not reached:
            return serving
        return {id: told for id, told in serving.items() if id in reached or id == self._key.id}

    def _endpoints(self, view: QuorumView, listener_name: str, nodes: Nodes) -> dict[int, Endpoint]:
        """The endpoints of the nodes, and of the leader, on the client's listener, or else on their default one."""
        endpoints = {id: endpoint for id, told in nodes.items() if (endpoint := _near(told, listener_name)) is not None}
        own = self._config.advertised_endpoint(listener_name)
        if own is not None and (self._key.id in endpoints or not endpoints):
            endpoints[self._key.id] = own
        leader = view.leader_endpoint_near(listener_name)
        if view.leader_id is not None and leader is not None:
            endpoints.setdefault(view.leader_id, leader)
        return endpoints

    # The topic

    def _topics(
        self, request: MetadataRequest, view: QuorumView, replicas: tuple[int, ...]
    ) -> tuple[TopicMetadata, ...]:
        wanted = request.topics
        if wanted is None:
            wanted = (MetadataTopic(self._config.topic_name, self._config.topic_id),)
        # Each topic once, even if it is requested several times.
        topics = {topic.topic_id if topic.name is None else topic.name: topic for topic in wanted}
        return tuple(self._topic_metadata(topic, view, replicas) for topic in topics.values())

    def _topic_metadata(self, topic: MetadataTopic, view: QuorumView, replicas: tuple[int, ...]) -> TopicMetadata:
        by_id = topic.name is None
        is_ours = topic.topic_id == self._config.topic_id if by_id else topic.name == self._config.topic_name
        if not is_ours:
            error = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
            return TopicMetadata(topic.name, topic.topic_id, error)
        partition = PartitionMetadata(
            partition=0,
            error=ErrorCode.leader_not_available if view.leader_id is None else ErrorCode.none,
            leader_id=-1 if view.leader_id is None else view.leader_id,
            leader_epoch=view.epoch,
            replicas=replicas,
            in_sync_replicas=replicas,
        )
        return TopicMetadata(self._config.topic_name, self._config.topic_id, partitions=(partition,))


def _near(endpoints: Endpoints, listener_name: str) -> Endpoint | None:
    return endpoints.get(listener_name) or next((endpoint for _, endpoint in endpoints), None)


def _nodes_of(view: QuorumView) -> Nodes:
    return {voter.id: voter.endpoints for voter in view.voters}


def _nodes_in(described: DescribeQuorumResponse) -> Nodes:
    """Empty if the node that was asked does not lead."""
    return {node.id: node.endpoints for node in described.nodes}


def _brokers(endpoints: Mapping[int, Endpoint]) -> tuple[Broker, ...]:
    return tuple(Broker(id, endpoint) for id, endpoint in sorted(endpoints.items()))
