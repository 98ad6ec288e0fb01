"""Mutants of what protects replicas of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import trio

from kraft_trio.actors.context.kafka_replicas import KafkaReplicas
from kraft_trio.actors.snapshots.snapshot_server import SnapshotServer
from kraft_trio.errors import RefusedError
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.storage.snapshots import snapshot_writer

from .mutant import Change, mutant
from .runs import custom

KEYED = NewRecord(b"value", b"key")
OF_TWO_TIMES = [NewRecord(b"a", timestamp_ms=1), NewRecord(b"b", timestamp_ms=2)]
ORDERS = {"kraft.topic.name": "orders"}
SMALL = {
    "metadata.log.segment.bytes": "1024",
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.max.retention.bytes": "0",
}


async def elect_before_kafka(cluster: Cluster) -> None:
    await parse_step("elect 1").take(cluster)
    await cluster.wait_until_alike()


async def appends_what_kafka_cannot_read(cluster: Cluster) -> None:
    await elect_before_kafka(cluster)
    for records in ([KEYED], OF_TWO_TIMES, [NewRecord(None)]):
        with suppress(RefusedError):
            await cluster.nodes[2].append(records)
        await cluster.nodes[1].append([b"value"])
    await cluster.wait_until_alike()


POISONED = custom(
    "records that Kafka cannot read", appends_what_kafka_cannot_read, kafka_replicas=(3,), settings=ORDERS
)


class Kept:
    """A state machine that keeps all records, with the keys that it is told to give them in snapshots."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._records: list[NewRecord] = []

    async def on_commit(self, records: Sequence[Any]) -> None:
        self._records += [NewRecord(record.value, self._key, (), record.timestamp_ms) for record in records]

    def save(self) -> list[NewRecord]:
        return list(self._records)

    async def load(self, _end_offset: int, batches: Any) -> None:
        self._records = []
        async for batch in batches:
            await self.on_commit(batch)


async def observer_of_kafka_comes_late(cluster: Cluster) -> None:
    await elect_before_kafka(cluster)
    for _ in range(40):
        await cluster.nodes[1].append([b"v" * 100])
        await trio.sleep(0.01)
    await cluster.machines[4].start()
    await trio.sleep(5)


LATE = {"observers": (4,), "kafka_replicas": (4,), "started": (1, 2, 3), "settings": ORDERS | SMALL}
KEYED_SNAPSHOT = custom(
    "a snapshot that Kafka cannot read",
    observer_of_kafka_comes_late,
    state_machine=lambda _: Kept(b"key"),
    **LATE,
)
TIMED_SNAPSHOT = custom(
    "a snapshot of several timestamps",
    observer_of_kafka_comes_late,
    state_machine=lambda _: Kept(None),
    **LATE,
)


@mutant(breaks="Kafka's replicas get only records that they can read", found_by=(0,), run=POISONED)
def all_records_are_taken() -> Iterable[Change]:
    return [(KafkaReplicas, "refusal", lambda *_: None)]


@mutant(breaks="Kafka's replicas get only snapshots that they can read", found_by=(0,), run=KEYED_SNAPSHOT)
def all_snapshots_are_sent() -> Iterable[Change]:
    return [(SnapshotServer, "may_send_to_kafka", lambda *_: True)]


@mutant(breaks="a batch of a snapshot has one timestamp", found_by=(0,), run=TIMED_SNAPSHOT)
def snapshot_batches_mix_timestamps() -> Iterable[Change]:
    return [
        (snapshot_writer, "_may_share_a_batch", lambda *_: True),
        (SnapshotServer, "may_send_to_kafka", lambda *_: True),
    ]
