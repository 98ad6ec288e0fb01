"""One connection to whoever leads the topic's partition: found through Metadata, kept while it serves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from uuid import UUID

import attrs
import trio

from kraft_trio.client.connecting import ask, drop, open_connection
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import METADATA
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataResponse, MetadataTopic
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network


@attrs.frozen
class ClientSettings:
    """What every connection of one client shares."""

    bootstrap: tuple[Endpoint, ...]
    topic_name: str
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    network: Network
    random: random.Random = attrs.field(factory=random.Random)

    async def back_off(self) -> None:
        """Wait before another attempt: the backoff, and up to as much again, so that clients do not march in step."""
        await trio.sleep(self.retry_backoff_ms * self.random.uniform(1.0, 2.0) / 1000)


@attrs.frozen
class Leader:
    """A connection to the leader, and the id that the topic has there."""

    connection: Connection
    topic_id: UUID


class LeaderConnection:
    """Finds the leader and keeps a connection to it.  Used by one task at a time; whoever made it closes it."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._known: tuple[Endpoint, ...] = settings.bootstrap
        self._leader: Leader | None = None

    async def get(self) -> Leader:
        """The leader as last known, else as found by asking every known node once.

        Raises NetworkError, with what each node said, where none could be found.
        """
        if self._leader is not None and self._leader.connection.usable:
            return self._leader
        self._leader = None
        reasons = []
        for endpoint in self._candidates():
            try:
                self._leader = await self._follow(endpoint)
            except (NetworkError, UnsupportedVersionError) as error:
                reasons.append(str(error))
            else:
                return self._leader
        raise NetworkError(f"no leader of topic {self._settings.topic_name} found: {'; '.join(reasons)}")

    async def forget(self) -> None:
        """Drop the connection, if there is one: it failed, or its node does not lead, or nobody needs it any more."""
        leader, self._leader = self._leader, None
        if leader is not None:
            await drop(leader.connection)

    def _candidates(self) -> Sequence[Endpoint]:
        known = list(dict.fromkeys((*self._known, *self._settings.bootstrap)))
        self._settings.random.shuffle(known)
        return known

    async def _follow(self, endpoint: Endpoint) -> Leader:
        """Ask one node who leads, and connect there.  Raises NetworkError naming the node and what it said."""
        settings = self._settings
        connection = await open_connection(settings.network, endpoint, settings.client_id, settings.request_timeout_ms)
        is_leader = False
        try:
            request = MetadataRequest(topics=(MetadataTopic(settings.topic_name),))
            metadata = await ask(connection, METADATA, request, settings.request_timeout_ms)
            self._known = tuple(broker.endpoint for broker in metadata.brokers)
            leader, topic_id = _leader_in(metadata, settings.topic_name)
            is_leader = leader == endpoint
        except NetworkError as error:
            raise NetworkError(f"{endpoint}: {error}") from error
        finally:
            if not is_leader:
                await drop(connection)
        if not is_leader:
            connection = await open_connection(
                settings.network, leader, settings.client_id, settings.request_timeout_ms
            )
        return Leader(connection, topic_id)


def _leader_in(metadata: MetadataResponse, topic_name: str) -> tuple[Endpoint, UUID]:
    """Where the leader of the topic's partition 0 is, and the topic's id.  Raises NetworkError with the reason."""
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
