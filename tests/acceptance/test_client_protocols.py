"""Kafka's ordinary clients write and read over each security protocol, with each mechanism, and are told if they may
not."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import confluent_kafka
import kafka
import pytest
from kafka import TopicPartition

from harness.ports import free_ports
from harness.quorum import TOPIC, Quorum
from harness.waiting import WAIT_SECONDS
from kraft_trio.cli import run as run_command_line
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.config.sasl_fields import MECHANISMS, SCRAM_MECHANISMS, SCRAM_SHA_256
from kraft_trio.config.values import SASL_PLAINTEXT, SASL_SSL, SECURITY_PROTOCOLS
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.writers import KCAT
from tests.support.certificates import authority, issue, tls_keys, write_store, write_trust

PASSWORD = "pass, word=1"
SESSION_MS = 2000
NAMES = {protocol: protocol.replace("_", "") for protocol in SECURITY_PROTOCOLS}
"""Of each protocol's listener."""


@attrs.frozen
class Way:
    """How a client connects; `mechanism` is empty without SASL."""

    protocol: str
    mechanism: str

    def __str__(self) -> str:
        return f"{self.protocol} {self.mechanism}".strip()


WAYS = [
    Way(protocol, mechanism)
    for protocol in SECURITY_PROTOCOLS
    for mechanism in (MECHANISMS if protocol in (SASL_PLAINTEXT, SASL_SSL) else ("",))
]


@attrs.frozen
class Servers:
    """A node with a listener of each protocol; those with TLS want a certificate."""

    addresses: dict[str, str]
    store: str
    trust: str

    def librdkafka(self, way: Way, password: str = PASSWORD) -> dict[str, str]:
        settings = {"bootstrap.servers": self.addresses[way.protocol], "security.protocol": way.protocol}
        if way.protocol.endswith("SSL"):
            settings |= {
                "ssl.ca.location": self.trust,
                "ssl.certificate.location": self.store,
                "ssl.key.location": self.store,
            }
        if way.mechanism:
            settings |= {"sasl.mechanism": way.mechanism, "sasl.username": "alice", "sasl.password": password}
        return settings

    def kafka_python(self, way: Way) -> dict[str, str]:
        settings = {"bootstrap_servers": self.addresses[way.protocol], "security_protocol": way.protocol}
        if way.protocol.endswith("SSL"):
            settings |= {"ssl_cafile": self.trust, "ssl_certfile": self.store, "ssl_keyfile": self.store}
        if way.mechanism:
            settings |= {
                "sasl_mechanism": way.mechanism,
                "sasl_plain_username": "alice",
                "sasl_plain_password": PASSWORD,
            }
        return settings


@pytest.fixture(scope="module")
def servers(make_module_quorum: MakeQuorum, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    files = tmp_path_factory.mktemp("certificates")
    quorum: Quorum = make_module_quorum(1, is_steady=True)
    node = quorum.nodes[1]
    ports = free_ports(len(NAMES))
    listeners = {protocol: f"localhost:{port}" for protocol, port in zip(NAMES, ports, strict=True)}
    controller = f"listeners=CONTROLLER://{node.endpoint}"
    text = node.properties.read_text()
    assert controller in text
    node.properties.write_text(_properties(text, controller, listeners, files))
    users = [f'{mechanism}=[name=alice,password="{PASSWORD}"]' for mechanism in SCRAM_MECHANISMS]
    assert run_command_line(["storage", "add-scram", "-c", str(node.properties), *users]) == 0
    quorum.start()
    quorum.leader()
    store = write_store(files / "client.pem", issue(authority(), "client"))
    yield Servers(listeners, str(store), str(write_trust(files / "trust.pem", authority())))
    assert PASSWORD not in node.log.read_text()


def _properties(text: str, controller: str, listeners: dict[str, str], files: Path) -> str:
    added = ",".join(f"{NAMES[protocol]}://{address}" for protocol, address in listeners.items())
    protocols = ",".join(f"{name}:{protocol}" for protocol, name in NAMES.items())
    jaas = f'{PLAIN_MODULE} required user_alice="{PASSWORD}";'
    lines = [
        text.replace(controller, f"{controller},{added}"),
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f"plain.sasl.jaas.config={jaas}",
        f"connections.max.reauth.ms={SESSION_MS}",
        *(f"{key}={value}" for key, value in tls_keys(files, "node").items()),
    ]
    return "\n".join(lines) + "\n"


def with_kafka_python(servers: Servers, way: Way, value: str) -> str:
    """Write a record, and read what is at its offset."""
    settings = servers.kafka_python(way)
    producer = kafka.KafkaProducer(acks="all", **settings)
    try:
        offset = producer.send(TOPIC, value.encode(), partition=0).get(timeout=WAIT_SECONDS).offset
    finally:
        producer.close(timeout=5)
    consumer = kafka.KafkaConsumer(enable_auto_commit=False, **settings)
    try:
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek(TopicPartition(TOPIC, 0), offset)
        record = next(iter(consumer))
        assert record.offset == offset
        return str(record.value.decode())
    finally:
        consumer.close()


def with_librdkafka(servers: Servers, way: Way, value: str) -> str:
    told: list[confluent_kafka.Message] = []
    settings = {**servers.librdkafka(way), "log_level": 0}
    producer = confluent_kafka.Producer({**settings, "acks": "all"})
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, message: told.append(message))
    assert producer.flush(WAIT_SECONDS) == 0
    [written] = told
    assert written.error() is None
    consumer = confluent_kafka.Consumer({**settings, "group.id": "protocols", "enable.auto.commit": False})
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, written.offset())])
        message = consumer.poll(WAIT_SECONDS)
        while message is not None and message.error() is not None:  # there is no coordinator of groups
            message = consumer.poll(WAIT_SECONDS)
        assert message is not None
        assert message.offset() == written.offset()
        return (message.value() or b"").decode()
    finally:
        consumer.close()


def with_kcat(servers: Servers, way: Way, value: str) -> str:
    options = [item for key, text in servers.librdkafka(way).items() for item in ("-X", f"{key}={text}")]
    of_topic = ["-t", TOPIC, "-p", "0", *options]
    assert KCAT is not None
    run_kcat(KCAT, "-P", *of_topic, "-X", "acks=all", stdin=value)
    return run_kcat(KCAT, "-C", "-q", *of_topic, "-o", "-1", "-c", "1").strip()


def run_kcat(*command: str, stdin: str = "") -> str:
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


Client = Callable[[Servers, Way, str], str]
"""Writes the value with a client, and returns what the client then reads."""
CLIENTS = [
    pytest.param(with_kafka_python, id="kafka-python"),
    pytest.param(with_librdkafka, id="librdkafka"),
    pytest.param(with_kcat, id="kcat", marks=pytest.mark.skipif(KCAT is None, reason="kcat is not installed")),
]


@pytest.mark.rotating(5)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("client", CLIENTS)
def test_an_ordinary_client_writes_and_reads(client: Client, way: Way, servers: Servers) -> None:
    value = f"{client.__name__} over {way}"
    assert client(servers, way, value) == value


@pytest.mark.nightly
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_renews_its_session(mechanism: str, servers: Servers) -> None:
    """Over one connection for several sessions; a connection that the node closed would be told as an error."""
    told: list[confluent_kafka.KafkaError | None] = []
    settings = servers.librdkafka(Way(SASL_PLAINTEXT, mechanism))
    producer = confluent_kafka.Producer({**settings, "log_level": 0, "error_cb": told.append})
    end_s = time.monotonic() + 3 * SESSION_MS / 1000
    while time.monotonic() < end_s:
        producer.produce(TOPIC, b"value", partition=0, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(WAIT_SECONDS) == 0
        producer.poll(0.1)
    assert set(told) == {None}


@pytest.mark.parametrize("protocol", [SASL_PLAINTEXT, SASL_SSL])
def test_librdkafka_is_told_of_a_wrong_password(protocol: str, servers: Servers) -> None:
    told: list[confluent_kafka.KafkaError] = []
    settings = servers.librdkafka(Way(protocol, SCRAM_SHA_256), "another")
    producer = confluent_kafka.Producer({**settings, "log_level": 0, "error_cb": told.append})
    while confluent_kafka.KafkaError._AUTHENTICATION not in [error.code() for error in told]:
        producer.poll(0.1)
