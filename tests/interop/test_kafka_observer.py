"""Kafka's raft observes a log of ours, and lives, because the leader refuses what it cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
import trio

from harness.node import NodeProcess
from harness.ports import free_ports
from harness.waiting import wait_until
from kraft_trio.client import AdminClient, LogClient
from kraft_trio.errors import RefusedError
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.storage.batches.batch import NewRecord
from tests.interop.raft_server import JVM_SECONDS, TOPIC, RaftServer, key_of, our_bytes, start_ours


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[NodeProcess]:
    node = start_ours(tmp_path)
    yield node
    node.kill()


@pytest.fixture
def kafka(leader: NodeProcess, tmp_path: Path) -> Iterator[RaftServer]:
    observer = RaftServer(tmp_path, str(leader.endpoint))
    yield observer
    observer.stop()


def append(leader: NodeProcess, *records: NewRecord) -> None:
    async def run() -> None:
        async with LogClient([leader.endpoint], topic_name=TOPIC) as client:
            await client.produce(list(records))

    trio.run(run)


def test_kafka_lives_and_has_the_same_log(leader: NodeProcess, kafka: RaftServer) -> None:
    append(leader, NewRecord(b"before Kafka has fetched"))
    wait_until("Kafka has the log", lambda: kafka.log_bytes() == our_bytes(leader), JVM_SECONDS)
    for refused, reason in (
        ([NewRecord(b"value", b"key")], "it has a key"),
        ([NewRecord(b"a", timestamp_ms=1), NewRecord(b"b", timestamp_ms=2)], "its timestamp is 1 ms after"),
        ([NewRecord(None)], "its value is null"),
    ):
        with pytest.raises(RefusedError, match=reason):
            append(leader, *refused)
    append(leader, *(NewRecord(b"value %d" % number) for number in range(100)))
    wait_until("Kafka has the log again", lambda: kafka.log_bytes() == our_bytes(leader), JVM_SECONDS)
    assert kafka.process.poll() is None, kafka.said()


@pytest.mark.nightly
def test_kafka_ends_at_a_key_that_is_not_refused(leader: NodeProcess, tmp_path: Path) -> None:
    leader.kill()
    with leader.properties.open("a") as file:
        file.write("kraft.kafka.records=any\n")
    leader.start()
    leader.wait_until_listening()
    append(leader, NewRecord(b"value", b"key"))
    kafka = RaftServer(tmp_path, str(leader.endpoint))
    try:
        wait_until("Kafka has ended", lambda: kafka.process.poll() is not None, JVM_SECONDS)
        assert "Got key in the record when no key was expected" in kafka.said()
    finally:
        kafka.stop()


def produced(asked: str) -> str:
    """The offset of a record that an idempotent producer of librdkafka's has written, or its error."""
    producer = confluent_kafka.Producer({"bootstrap.servers": asked, "enable.idempotence": True, "log_level": 0})
    told: list[str] = []
    producer.produce(TOPIC, b"value", callback=lambda error, sent: told.append(str(error or sent.offset())))
    assert producer.flush(JVM_SECONDS) == 0
    return told[0]


PRODUCERS = 8
"""Each of them would fail with a chance of a third."""


@pytest.mark.nightly
def test_idempotent_librdkafka_is_named_no_voter_of_kafka(tmp_path: Path) -> None:
    """It fails for good if it is connected to nobody but a node that gives no producer ids."""
    clients = [f"127.0.0.1:{port}" for port in free_ports(2)]
    leader = start_ours(tmp_path, 1, clients=clients[0])
    follower = start_ours(tmp_path, 2, str(leader.endpoint), clients[1])
    kafka = RaftServer(tmp_path, str(leader.endpoint), settings={"controller.quorum.election.timeout.ms": 100_000})

    of_clients = Endpoint("127.0.0.1", int(clients[1].partition(":")[2]))

    async def add() -> None:
        admin = AdminClient([leader.endpoint])
        of_follower = Endpoints([("CONTROLLER", follower.endpoint), ("CLIENT", of_clients)])
        await admin.add_metadata_voter(key_of(follower), of_follower)
        await admin.add_metadata_voter(kafka.key, Endpoints([("CONTROLLER", kafka.endpoint)]))

    try:
        wait_until("Kafka observes", lambda: kafka.log_bytes() == our_bytes(leader) != b"", JVM_SECONDS)
        trio.run(add)
        for asked in clients * PRODUCERS:
            assert produced(asked).isdigit(), asked
    finally:
        kafka.stop()
        follower.kill()
        leader.kill()
