"""What a node notes of replicas that run Apache Kafka."""

from __future__ import annotations

from uuid import UUID

import trio
from structlog.testing import capture_logs

from kraft_trio.actors.context.kafka_replicas import KafkaReplicas
from kraft_trio.config import NodeConfig
from kraft_trio.protocol.types import ReplicaKey

KAFKA = ReplicaKey(7, UUID(int=7))


def test_replica_of_kafka_is_told_once_and_is_no_warning() -> None:
    async def fetch() -> KafkaReplicas:
        replicas = KafkaReplicas(
            NodeConfig(node_id=1, listeners="CONTROLLER://127.0.0.1:9093", metadata_log_dir="data")
        )
        replicas.fetched(KAFKA, "apache-kafka-java")
        replicas.fetched(KAFKA, "apache-kafka-java")
        return replicas

    with capture_logs() as logs:
        replicas = trio.run(fetch)
    assert [(line["event"], line["log_level"]) for line in logs] == [("replica runs Apache Kafka", "info")]
    assert replicas.is_known(7)
