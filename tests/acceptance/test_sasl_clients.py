"""Kafka's ordinary clients authenticate with each mechanism, and are told when they may not."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import kafka
import pytest

from harness.quorum import TOPIC, Quorum
from harness.waiting import WAIT_SECONDS
from kraft_trio.cli import run as run_command_line
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.config.sasl_fields import MECHANISMS, SCRAM_MECHANISMS
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.kafka_tools import add_client_listeners

PASSWORD = "pass, word=1"


@pytest.fixture(scope="module")
def servers(make_module_quorum: MakeQuorum) -> Iterator[str]:
    """The address of a listener with SASL."""
    quorum: Quorum = make_module_quorum(1, is_steady=True)
    servers = add_client_listeners(quorum)[1]
    node = quorum.nodes[1]
    with node.properties.open("a") as file:
        file.write("listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT\n")
        file.write(f"sasl.enabled.mechanisms={','.join(MECHANISMS)}\n")
        jaas = f'{PLAIN_MODULE} required user_alice="{PASSWORD}";'
        file.write(f"listener.name.client.plain.sasl.jaas.config={jaas}\n")
    users = [f'{mechanism}=[name=alice,password="{PASSWORD}"]' for mechanism in SCRAM_MECHANISMS]
    assert run_command_line(["storage", "add-scram", "-c", str(node.properties), *users]) == 0
    quorum.start()
    quorum.leader()
    yield servers
    log = node.log.read_text()
    assert PASSWORD not in log


def write_with_kafka_python(servers: str, mechanism: str, password: str) -> int:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password=password,
        acks="all",
    )
    try:
        offset: int = producer.send(TOPIC, b"value", partition=0).get(timeout=WAIT_SECONDS).offset
        return offset
    finally:
        producer.close(timeout=5)


def librdkafka_of(servers: str, mechanism: str, password: str, **settings: object) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
            "acks": "all",
            "log_level": 0,
            **settings,
        }
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes(servers: str, mechanism: str) -> None:
    assert write_with_kafka_python(servers, mechanism, PASSWORD) > 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes(servers: str, mechanism: str) -> None:
    told: list[confluent_kafka.KafkaError | None] = []
    producer = librdkafka_of(servers, mechanism, PASSWORD)
    producer.produce(TOPIC, b"value", partition=0, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(WAIT_SECONDS) == 0
    assert told == [None]


def test_librdkafka_is_told_of_a_wrong_password(servers: str) -> None:
    told: list[confluent_kafka.KafkaError] = []
    producer = librdkafka_of(servers, "SCRAM-SHA-256", "another", error_cb=told.append)
    while confluent_kafka.KafkaError._AUTHENTICATION not in [error.code() for error in told]:
        producer.poll(0.1)
