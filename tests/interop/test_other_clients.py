"""Other people's clients write to our topic and read it: each row of the matrix has its version."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import confluent_kafka
import kafka
import pytest

from harness.quorum import TOPIC, Quorum
from harness.waiting import WAIT_SECONDS

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
VALUE = "value"


def with_kafka_python(servers: str) -> str:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
    try:
        offset = producer.send(TOPIC, VALUE.encode(), partition=0).get(timeout=WAIT_SECONDS).offset
    finally:
        producer.close(timeout=5)
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    try:
        consumer.assign([kafka.TopicPartition(TOPIC, 0)])
        consumer.seek(kafka.TopicPartition(TOPIC, 0), offset)
        return str(next(iter(consumer)).value.decode())
    finally:
        consumer.close()


def with_confluent_kafka(servers: str) -> str:
    settings = {"bootstrap.servers": servers, "log_level": 0}
    told: list[int | None] = []
    producer = confluent_kafka.Producer({**settings, "enable.idempotence": True})
    producer.produce(TOPIC, VALUE, partition=0, on_delivery=lambda error, message: told.append(message.offset()))
    assert producer.flush(WAIT_SECONDS) == 0
    [offset] = told
    assert offset is not None
    consumer = confluent_kafka.Consumer({**settings, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, offset)])
        message = consumer.poll(WAIT_SECONDS)
        while message is not None and message.error() is not None:  # there is no coordinator of groups
            message = consumer.poll(WAIT_SECONDS)
        assert message is not None
        return (message.value() or b"").decode()
    finally:
        consumer.close()


def with_kcat(servers: str) -> str:
    assert KCAT is not None

    def run(*arguments: str, stdin: str = "") -> str:
        command = [KCAT or "", "-b", servers, "-t", TOPIC, "-p", "0", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-P", "-X", "enable.idempotence=true", stdin=VALUE)
    return run("-C", "-q", "-o", "-1", "-c", "1").strip()


def case(client: Callable[[str], str], name: str, *marks: Any) -> Any:
    return pytest.param(client, id=name, marks=[pytest.mark.system(name, name), *marks])


@pytest.mark.parametrize(
    "client",
    [
        case(with_kafka_python, "kafka-python"),
        case(with_confluent_kafka, "confluent-kafka"),
        case(with_kcat, "kcat", pytest.mark.skipif(KCAT is None, reason="kcat is not installed")),
    ],
)
def test_an_idempotent_producer_writes_and_a_consumer_reads(client: Callable[[str], str], make_quorum: Any) -> None:
    quorum: Quorum = make_quorum(3)
    quorum.start()
    quorum.leader()
    assert client(quorum.bootstrap_servers) == VALUE
