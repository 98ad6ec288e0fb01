"""Ordinary Kafka consumers that read the whole topic, and what their records must look like."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import confluent_kafka
import kafka
from kafka import TopicPartition

from harness.quorum import TOPIC
from harness.waiting import Overdue
from tests.acceptance.writers import KCAT, Writer

READ_SECONDS = 120.0

Consumed = list[tuple[int, str]]
"""Offset and value of each record, in the order in which the client gave them."""


def read_with_kafka_python(bootstrap_servers: str) -> Consumed:
    """Everything up to the end that the quorum names at the start."""
    partition = TopicPartition(TOPIC, 0)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","), enable_auto_commit=False, reconnect_backoff_max_ms=200
    )
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        records: Consumed = []
        deadline = time.monotonic() + READ_SECONDS
        while consumer.position(partition) < end:
            for batch in consumer.poll(timeout_ms=200).values():
                records += [(record.offset, record.value.decode()) for record in batch]
            if time.monotonic() > deadline:
                raise Overdue(f"kafka-python is at {consumer.position(partition)} of {end}")
    finally:
        consumer.close()
    return records


def read_with_confluent(bootstrap_servers: str) -> Consumed:
    """Everything up to librdkafka's end-of-partition event."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "acceptance",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, confluent_kafka.OFFSET_BEGINNING)])
        records: Consumed = []
        deadline = time.monotonic() + READ_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                records.append((message.offset() or 0, (message.value() or b"").decode()))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return records
        raise Overdue(f"confluent-kafka read {len(records)} records and has not come to the end")
    finally:
        consumer.close()


def read_with_kcat(bootstrap_servers: str) -> Consumed:
    """Everything up to the end, as `kcat -C -e` prints it."""
    assert KCAT is not None
    command = [KCAT, "-C", "-q", "-b", bootstrap_servers, "-t", TOPIC, "-p", "0", "-o", "beginning", "-e"]
    completed = subprocess.run(
        [*command, "-f", "%o %s\n"], capture_output=True, text=True, timeout=READ_SECONDS, check=False
    )
    assert completed.returncode == 0, completed.stderr
    pairs = [line.split(" ", 1) for line in completed.stdout.splitlines()]
    return [(int(offset), value) for offset, value in pairs]


def read_with_every_client(bootstrap_servers: str) -> Consumed:
    """What the clients read, which is the same for all of them."""
    records = read_with_kafka_python(bootstrap_servers)
    assert read_with_confluent(bootstrap_servers) == records
    if KCAT is not None:
        assert read_with_kcat(bootstrap_servers) == records
    return records


def assert_written_once_in_order(records: Consumed, writers: Iterable[Writer]) -> None:
    """Every acknowledged record is there; nothing is there twice; each writer's records are in their order."""
    offsets = [offset for offset, _ in records]
    assert offsets == sorted(set(offsets)), "offsets do not rise"
    values = [value for _, value in records]
    twice = {value: count for value, count in Counter(values).items() if count > 1}
    assert not twice, f"consumed more than once: {twice}"
    for writer in writers:
        own = [value for value in values if value.startswith(f"{writer.name}:")]
        assert own == sorted(own), f"{writer.name}: out of order at {_first_out_of_order(own)}"
        lost = set(writer.acknowledged) - set(own)
        assert not lost, f"{writer.name}: acknowledged, but not there: {sorted(lost)[:20]} ({len(lost)} records)"


def _first_out_of_order(values: Sequence[str]) -> tuple[str, str]:
    return next((before, after) for before, after in pairwise(values) if before > after)
