"""Reads committed records from followers and observers that the user names, to spare the leader."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import cycle
from typing import TypeVar

import trio

from kraft_trio.client.connecting import ask, drop, open_connection
from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.node_answer import topic_id_in, topic_name_in
from kraft_trio.errors import NetworkError, RefusedError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.spark.live.quorum import CLIENT_ID, RETRY_S, QuorumAddress, QuorumLeader, check_topic
from kraft_trio.wire.api import METADATA
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.network import Network

T = TypeVar("T")


async def ask_replica(
    address: QuorumAddress,
    question: Callable[[QuorumLeader], Awaitable[T]],
    on_retry: Callable[[], object] = lambda: None,
    network: Network | None = None,
) -> T:
    """The answer of one of `address.replicas`, asked in turn from a random one on, for `address.timeout_ms`.

    Calls `on_retry` before each further attempt.  Raises NetworkError with the last problem when the time is over; all
    other errors at once, among them RefusedError for one of Kafka's controllers.
    """
    network = address.network() if network is None else network
    began_at = trio.current_time()
    for endpoint in cycle(random.sample(address.replicas, len(address.replicas))):
        try:
            async with replica(address, endpoint, network) as found:
                return await question(found)
        except NetworkError as error:
            if trio.current_time() + RETRY_S > began_at + address.timeout_ms / 1000:
                raise NetworkError(f"readReplicas: nothing within {address.timeout_ms} ms: {error}") from error
        on_retry()
        await trio.sleep(RETRY_S)
    raise AssertionError("without replicas nobody is asked")


@asynccontextmanager
async def replica(address: QuorumAddress, endpoint: Endpoint, network: Network) -> AsyncIterator[QuorumLeader]:
    """A connection to one node, closed at the end of the block; asked like a leader, it tells what it knows.

    Raises NetworkError; RefusedError for one of Kafka's controllers; ConfigError for another topic.
    """
    connection = await open_connection(network, endpoint, CLIENT_ID, address.request_timeout_ms)
    try:
        metadata = await ask(connection, METADATA, MetadataRequest(topics=None), address.request_timeout_ms)
    except BaseException as error:
        await drop(connection)
        if isinstance(error, UnsupportedVersionError):
            raise RefusedError(
                f"readReplicas: {endpoint} is one of Kafka's controllers, which give records as the leader only; name "
                "nodes of kraft-trio, for instance observers of Kafka's controllers"
            ) from error
        raise
    leader = LeaderConnection(
        connection,
        endpoint,
        topic_name_in(metadata),
        topic_id_in(metadata),
        address.request_timeout_ms,
        cluster_id=metadata.cluster_id,
        any_replica=True,
    )
    async with aclosing(leader):
        check_topic(address.topic_name, leader)
        yield QuorumLeader(leader)
