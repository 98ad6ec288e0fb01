"""Finding the leader of a quorum from any of its nodes, ours or Apache Kafka's, and keeping a connection to it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

import trio

from kraft_trio.client.connecting import ask, drop, open_connection
from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.node_answer import DEFAULT_TOPIC, NodeAnswer, answer_of
from kraft_trio.client.quorum_description import NodeView
from kraft_trio.client.quorum_question import describe_quorum
from kraft_trio.config.values import BOOTSTRAP_SERVERS
from kraft_trio.errors import ClientClosedError, NetworkError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import DESCRIBE_CLUSTER, METADATA
from kraft_trio.wire.apis.describe_cluster import CONTROLLERS, DescribeClusterRequest
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataResponse, MetadataTopic
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network

Bootstrap: TypeAlias = str | Sequence[Endpoint | str]
"""Nodes to ask: endpoints, or texts with host and port; one text may have several, separated by commas."""


class LeaderNotFoundError(NetworkError):
    """No leader answered and could be connected to."""

    def __init__(self, said: Sequence[str]) -> None:
        self.said = "; ".join(said)
        """What each node said instead."""
        super().__init__(f"no leader: {self.said}")


class LeaderFinder:
    """Asks nodes for the leader.  Holds no connection between calls.

    There are two ways to ask.  `describe` and `find` ask all nodes at once and take only the leader's own word; they
    work with Kafka's controllers, too.  `follow` asks one node after the other and trusts its Metadata: that is the
    cheap way for clients that write and read, whose next request shows whether the node was right.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        client_id: str,
        *,
        request_timeout_ms: int,
        network: Network,
        topic_name: str = DEFAULT_TOPIC,
        random_source: random.Random | None = None,
    ) -> None:
        """`bootstrap` is any nodes of the quorum.  `topic_name` is the topic that `follow` asks for.

        Raises ValueError if `bootstrap` is empty or has something else.
        """
        self.bootstrap = tuple(dict.fromkeys(bootstrap_endpoints(bootstrap)))
        if not self.bootstrap:
            raise ValueError("bootstrap: no endpoint given, at least one expected")
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._network = network
        self._topic_name = topic_name
        self._random = random.Random() if random_source is None else random_source
        self._brokers: tuple[Endpoint, ...] = ()
        """The nodes that the newest Metadata named: they may outlive the bootstrap nodes."""

    async def connect(self, endpoint: Endpoint) -> Connection:
        """Connect to one node; the caller closes the connection.  Raises NetworkError, UnsupportedVersionError."""
        return await open_connection(self._network, endpoint, self._client_id, self._request_timeout_ms)

    # Asking all nodes at once

    async def describe(self) -> list[NodeAnswer]:
        """Ask the bootstrap nodes, then the leaders that they name.

        Stops as soon as an answer has a leader's description; later answers are then missing from the list.
        """
        answers = await self._ask_all(self.bootstrap)
        if any(answer.description is not None for answer in answers):
            return answers
        named = dict.fromkeys(answer.leader for answer in answers if answer.leader is not None)
        further = [endpoint for endpoint in named if endpoint not in self.bootstrap]
        return [*answers, *await self._ask_all(further)]

    async def find(self, *, trusts_metadata: bool = False) -> LeaderConnection:
        """Connect to the leader; the caller closes it.

        With `trusts_metadata`, also to one that only Metadata names, to a client that may not DESCRIBE the cluster.
        Raises LeaderNotFoundError if no leader answers, or if it cannot be connected to.
        """
        answers = await self.describe()
        said = [str(answer.view) for answer in answers]
        found = next((answer for answer in answers if answer.description is not None), None)
        if found is None and trusts_metadata:
            found = next((answer for answer in answers if answer.leader is not None), None)
        if found is not None:
            endpoint = found.leader or found.view.endpoint
            try:
                connection = await self.connect(endpoint)
            except (NetworkError, UnsupportedVersionError) as error:
                said.append(str(error))
            else:
                return LeaderConnection(
                    connection,
                    endpoint,
                    found.topic_name,
                    found.topic_id,
                    self._request_timeout_ms,
                    nodes=found.nodes,
                    cluster_id=found.cluster_id,
                    epoch=-1 if found.description is None else found.description.leader_epoch,
                    high_watermark=-1 if found.description is None else found.description.high_watermark,
                )
        raise LeaderNotFoundError(said)

    async def _ask_all(self, endpoints: Sequence[Endpoint]) -> list[NodeAnswer]:
        """Ask these nodes at once until one describes the quorum; the answers are in the order of the endpoints."""
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
                metadata = await self._ask_metadata(connection)
                metadata, response = await describe_quorum(connection, metadata, self._request_timeout_ms)
            finally:
                await drop(connection)
        except (NetworkError, UnsupportedVersionError) as error:
            return NodeAnswer(NodeView(endpoint, str(error).removeprefix(f"{endpoint}: ")))
        return answer_of(endpoint, metadata, response)

    async def _ask_metadata(self, connection: Connection) -> MetadataResponse | None:
        """Ask for the cluster id, the nodes, the leader and the topic.

        Kafka's controllers do not serve Metadata; DescribeCluster tells all but the topic (KIP-919).  None for a node
        that serves neither.
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

    # Asking one node after the other

    async def follow(self) -> LeaderConnection:
        """Connect to the leader that some node names; the caller closes it.

        Asks every known node once, in random order.  Raises NetworkError, with what each node said, if no leader can
        be found.
        """
        known = list(dict.fromkeys((*self._brokers, *self.bootstrap)))
        self._random.shuffle(known)
        said = []
        for endpoint in known:
            try:
                return await self._follow(endpoint)
            except (NetworkError, UnsupportedVersionError) as error:
                said.append(str(error))
        raise NetworkError(f"no leader of topic {self._topic_name} found: {'; '.join(said)}")

    async def _follow(self, endpoint: Endpoint) -> LeaderConnection:
        connection = await self.connect(endpoint)
        is_leader = False
        try:
            request = MetadataRequest(topics=(MetadataTopic(self._topic_name),))
            metadata = await ask(connection, METADATA, request, self._request_timeout_ms)
            self._brokers = tuple(broker.endpoint for broker in metadata.brokers)
            leader, topic_id = _named_leader(metadata, self._topic_name)
            is_leader = leader == endpoint
        except NetworkError as error:
            raise NetworkError(f"{endpoint}: {error}") from error
        finally:
            if not is_leader:
                await drop(connection)
        if not is_leader:
            connection = await self.connect(leader)
        return LeaderConnection(
            connection, leader, self._topic_name, topic_id, self._request_timeout_ms, nodes=self._brokers
        )


class LeaderKeeper:
    """Finds the leader and keeps the connection to it, for one task at a time.

    The owner calls `forget` at the end if no task is asking, otherwise `aclose`.
    """

    def __init__(self, finder: LeaderFinder, *, retry_backoff_ms: int, random_source: random.Random) -> None:
        self._finder = finder
        self._retry_backoff_ms = retry_backoff_ms
        self._random = random_source
        self._leader: LeaderConnection | None = None
        self._is_closed = False

    async def find(self) -> LeaderConnection:
        """The leader as last known, or as any node names it now.

        Raises NetworkError, with what each node said, and ClientClosedError.
        """
        if self._leader is None or not self._leader.connection.usable:
            self._leader = None
            leader = None if self._is_closed else await self._finder.follow()
            if leader is None or self._is_closed:
                if leader is not None:
                    await leader.aclose()
                raise ClientClosedError("the client was closed")
            self._leader = leader
        return self._leader

    async def aclose(self) -> None:
        """Close the connection, and make no other one for a task that still asks."""
        self._is_closed = True
        await self.forget()

    async def forget(self) -> None:
        """Close the connection, if there is one."""
        leader, self._leader = self._leader, None
        if leader is not None:
            await leader.aclose()

    async def prepare_another(self) -> None:
        """Close the connection, then wait for the backoff or up to twice as long: clients must not retry in step."""
        await self.forget()
        await trio.sleep(self._retry_backoff_ms * self._random.uniform(1.0, 2.0) / 1000)


def _named_leader(metadata: MetadataResponse, topic_name: str) -> tuple[Endpoint, UUID]:
    """Where the leader of the topic's partition 0 listens, and the topic's id.  Raises NetworkError with the reason."""
    topic = next((topic for topic in metadata.topics if topic.name == topic_name), None)
    if topic is None or topic.error != ErrorCode.none:
        raise NetworkError(f"topic {topic_name}: {'not known' if topic is None else topic.error.name}")
    partition = next((partition for partition in topic.partitions if partition.partition == 0), None)
    if partition is None or partition.leader_id < 0:
        raise NetworkError("knows no leader")
    endpoint = next((broker.endpoint for broker in metadata.brokers if broker.id == partition.leader_id), None)
    if endpoint is None:
        raise NetworkError(f"names node {partition.leader_id} as leader, but not where it is")
    return endpoint, topic.topic_id


def bootstrap_endpoints(bootstrap: Bootstrap) -> tuple[Endpoint, ...]:
    """The nodes that were meant.  Raises ValueError for something else."""
    try:
        endpoints: tuple[Endpoint, ...] = (
            BOOTSTRAP_SERVERS.parse(bootstrap) if isinstance(bootstrap, str) else BOOTSTRAP_SERVERS.take([*bootstrap])
        )
    except (TypeError, ValueError) as error:
        why = f": {error}" if isinstance(error, ValueError) and str(error) else ""
        raise ValueError(f"bootstrap: {bootstrap!r}{why}; expected endpoints or host:port") from error
    return endpoints
