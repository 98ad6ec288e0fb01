"""Our commands find the leader of Kafka's controllers from a broker, and from a follower that has not heard of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from harness.command import kraft
from harness.waiting import wait_until
from kraft_trio.client.connecting import drop, open_connection
from kraft_trio.client.quorum_question import describe_quorum
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.metadata import Broker as NamedNode
from kraft_trio.wire.apis.metadata import MetadataResponse
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.tcp_network import TcpNetwork
from tests.interop.kafka_broker import Broker
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers
from tests.interop.kafka_tools import tool


@pytest.fixture
def broker(controllers: Controllers, tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, controllers)
    yield made
    made.stop()


@pytest.mark.nightly
def test_a_broker_with_one_topic_tells_the_quorum(controllers: Controllers, broker: Broker) -> None:
    def has_topic() -> bool:
        return tool("TopicCommand", "--bootstrap-server", broker.endpoint, "--create", "--topic", "a").returncode == 0

    wait_until("the broker creates a topic", has_topic, JVM_SECONDS)
    asked = ["metadata-quorum", "--bootstrap-server", broker.endpoint]
    described = kraft(*asked, "describe", "--status", "--json")
    assert described.returncode == 0, described.stdout + described.stderr
    assert json.loads(described.stdout)["leaderId"] == 1
    explained = kraft(*asked, "explain")
    rows = [line.split()[:5] for line in explained.stdout.splitlines()]
    assert ["10", broker.endpoint, "1", "1", "1"] in rows, explained.stdout + explained.stderr


@pytest.mark.nightly
def test_a_follower_tells_where_its_leader_is(controllers: Controllers) -> None:
    """Even if the leader has not registered, so that DescribeCluster does not name it."""
    wait_until("Kafka's second controller observes", lambda: controllers.replicas(2) == ([1], [2]), JVM_SECONDS)

    async def asked(cluster_id: str) -> MetadataResponse | None:
        network = TcpNetwork()
        connection = await open_connection(network, Endpoint("127.0.0.1", controllers.ports[2]), "test", 5000)
        try:
            metadata, response = await describe_quorum(connection, MetadataResponse((), cluster_id), 5000)
        finally:
            await drop(connection)
        assert response.partition_error is ErrorCode.not_leader_or_follower
        return metadata

    found = trio.run(asked, controllers.cluster_id)
    assert found is not None
    assert found.controller_id == 1
    assert found.brokers == (NamedNode(1, Endpoint("127.0.0.1", controllers.ports[1])),)
