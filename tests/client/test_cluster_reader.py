"""The brokers are read out of the newest snapshot and the log behind it, in bounded steps, and continue from there."""

from __future__ import annotations

import pytest

from kraft_trio.client import cluster_reader
from kraft_trio.client.cluster_reader import ClusterReader
from kraft_trio.node import Node
from kraft_trio.protocol.kafka_cluster import KafkaCluster
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.simulation.state_machine import RememberedValues
from tests.support.kafka_leader import as_kafka
from tests.support.metadata_records import NO_OP, change, register
from tests.support.on_cluster import on_cluster

SETTINGS = {
    "metadata.log.max.snapshot.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": str(2**40),
    "metadata.log.segment.bytes": "1024",
    "metadata.max.retention.bytes": "0",
}


async def read(cluster: Cluster, leader: Node, reader: ClusterReader) -> KafkaCluster:
    endpoint = cluster.endpoint_of(leader.key.id)
    return await reader.read(endpoint, CLUSTER_ID, leader.view.epoch, 1000)


def reader_of(cluster: Cluster) -> ClusterReader:
    return ClusterReader(cluster.network.seen_from("client-explain"), "kraft-explain")


def fenced(cluster: KafkaCluster) -> dict[int, bool]:
    return {broker.id: broker.is_fenced for broker in cluster.brokers}


@on_cluster(voters=1, state_machine=lambda _: RememberedValues(), settings=SETTINGS)
async def test_snapshot_and_log_are_read_and_followed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    as_kafka(monkeypatch, leader)
    await leader.append([register(10), register(11), *[NO_OP] * 400])
    reader = reader_of(cluster)
    assert fenced(await read(cluster, leader, reader)) == {10: True, 11: True}

    assert await leader.take_snapshot() is not None
    assert leader.log.log_start_offset > 0
    await leader.append([change(11, -1)])
    assert fenced(await read(cluster, leader, reader_of(cluster))) == {10: True, 11: False}
    assert fenced(await read(cluster, leader, reader)) == {10: True, 11: False}
    await leader.append([change(10, -1)])
    assert fenced(await read(cluster, leader, reader)) == {10: False, 11: False}


@on_cluster(voters=1, state_machine=lambda _: RememberedValues(), settings=SETTINGS)
async def test_reader_far_behind_begins_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    as_kafka(monkeypatch, leader)
    await leader.append([register(10)])
    reader = reader_of(cluster)
    await read(cluster, leader, reader)
    await leader.append([change(10, -1)])
    for _ in range(10):
        await leader.append([NO_OP] * 100)
    assert await leader.take_snapshot() is not None
    assert leader.log.log_start_offset > 5
    assert fenced(await read(cluster, leader, reader)) == {10: False}


@on_cluster(voters=1, settings=SETTINGS)
async def test_one_question_reads_so_much_and_no_more(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reader, "LOG_BYTES", 2000)
    monkeypatch.setattr(cluster_reader, "PIECE_BYTES", 1000)
    leader = await cluster.wait_for_leader()
    for _ in range(10):
        await leader.append([NO_OP] * 40)
    await leader.append([register(10)])
    reader = reader_of(cluster)
    answers = [await read(cluster, leader, reader)]
    assert not answers[0].is_read
    while not answers[-1].is_read:
        answers.append(await read(cluster, leader, reader))
    assert fenced(answers[-1]) == {10: True}
    assert len(answers) > 2
