"""A replica that reads as strictly as Apache Kafka lives while the rule holds, and ends where Kafka would."""

from __future__ import annotations

import pytest

from kraft_trio.errors import RefusedError
from kraft_trio.simulation import Cluster, InvariantViolated, Setup, simulate
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.strict_reader import StrictReader
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from tests.storage.support import log_of
from tests.support.on_cluster import on_cluster

from .mutants import kafka, violation_of

ORDERS = {"kraft.topic.name": "orders"}
KEYED = NewRecord(b"value", b"key")


@on_cluster(kafka_replicas=(3,), settings=ORDERS)
async def test_a_voter_of_kafka_outlives_refused_records_under_each_leader(cluster: Cluster) -> None:
    await parse_step("elect 1").take(cluster)
    await cluster.wait_until_alike()
    for asked in (1, 2):
        with pytest.raises(RefusedError, match="it has a key"):
            await cluster.nodes[asked].append([KEYED])
    await cluster.nodes[1].append([b"value"])
    await parse_step("elect 2").take(cluster)
    await cluster.wait_until_alike()
    with pytest.raises(RefusedError, match="it has a key"):
        await cluster.nodes[1].append([KEYED])
    await cluster.nodes[1].append([b"value", NewRecord(b"at the same time")])
    await cluster.wait_until_alike()
    assert sorted(cluster.nodes) == [1, 2, 3]


@pytest.mark.parametrize("run", [kafka.POISONED, kafka.KEYED_SNAPSHOT, kafka.TIMED_SNAPSHOT], ids=lambda run: run.name)
def test_it_lives_in_the_runs_of_the_mutants(run: kafka.Run) -> None:
    assert violation_of(run, 0) is None


def test_it_ends_at_what_is_in_the_log_when_it_starts() -> None:
    log = log_of(1, 1)
    ended: list[str] = []
    StrictReader(log, ended.append)
    assert ended == []
    log.append_as_leader(bytearray(encode_batch([KEYED], timestamp_ms=0)), 1)
    StrictReader(log, ended.append)
    assert ended == ["the batch at offset 4, record 0: it has a key"] * 2, "the watching one, and the new one"


def test_it_ends_at_such_a_record() -> None:
    setup = Setup(kafka_replicas=(3,), settings=ORDERS | {"kraft.kafka.records": "any"})

    async def appended_while_it_runs(cluster: Cluster) -> None:
        await (await cluster.wait_for_leader()).append([KEYED])
        await cluster.wait_until_alike()

    with pytest.raises(InvariantViolated, match="node 3 runs Apache Kafka and ended: the batch at offset 3, record 0"):
        simulate(appended_while_it_runs, setup)
