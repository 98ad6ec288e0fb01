"""kill -9 of all nodes at once, while they are written to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from harness.node import NodeProcess
from harness.portable import IS_PORTABLE
from harness.quorum import TOPIC
from harness.waiting import WAIT_SECONDS
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.readers import read_with_confluent

FEWEST = 10_000
IN_FLIGHT = 2_000


def acknowledged_until_killed(quorum: Any) -> list[str]:
    """Write without a pause, kill all nodes once enough is acknowledged, and return what was acknowledged."""
    acknowledged: list[str] = []

    def told(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is None:
            acknowledged.append(message.value().decode())

    settings = {"bootstrap.servers": quorum.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1}
    producer = confluent_kafka.Producer(settings | {"log_level": 0})
    sent = 0
    while len(acknowledged) < FEWEST:
        while sent < len(acknowledged) + IN_FLIGHT:
            producer.produce(TOPIC, f"value-{sent}".encode(), partition=0, on_delivery=told)
            sent += 1
        assert producer.poll(WAIT_SECONDS), "nothing more is acknowledged"
    quorum.kill_all()
    producer.purge()
    producer.poll(0)
    return acknowledged


def has_eventfd(node: NodeProcess) -> bool:
    return any("eventfd" in os.readlink(path) for path in Path(f"/proc/{node.pid}/fd").iterdir() if path.is_symlink())


@pytest.mark.rotating(5)
def test_what_was_acknowledged_survives_the_kill_of_all(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum()
    quorum.start()
    quorum.produce(["before"])
    assert has_eventfd(quorum.leader()) == (not IS_PORTABLE), "the node runs as this test run does"
    acknowledged = acknowledged_until_killed(quorum)
    quorum.start()
    values = [value for _, value in read_with_confluent(quorum.bootstrap_servers)]
    lost = set(acknowledged) - set(values)
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged records are lost"
    assert len(set(values)) == len(values), "a record is there twice"
    print(f"{len(acknowledged)} acknowledged, {len(values) - 1} there")
