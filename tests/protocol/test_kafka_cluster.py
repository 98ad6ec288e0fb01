"""Which brokers and topics the metadata records of Kafka's controllers leave."""

from __future__ import annotations

from uuid import UUID

import pytest

from kraft_trio.protocol.features import claimed_features
from kraft_trio.protocol.kafka_cluster import FOLDED, ClusterFold, KafkaCluster, RegisteredBroker
from kraft_trio.protocol.types import VersionRange
from kraft_trio.wire.metadata_frame import decode_metadata_frame
from kraft_trio.wire.metadata_schemas import (
    FenceBrokerRecord,
    RemoveTopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.support.metadata_records import (
    change,
    metadata_record,
    partition,
    register,
    register_controller,
    topic,
    unregister_controller,
)

FENCED = RegisteredBroker(10, is_fenced=True)
RUNNING = RegisteredBroker(10, is_fenced=False)
OTHER = UUID(int=6)


def cluster_of(*records: bytes) -> KafkaCluster:
    fold = ClusterFold()
    for record in records:
        frame = decode_metadata_frame(record)
        assert frame.api_key in FOLDED
        fold.add(frame.api_key, frame.fields())
    return fold.cluster(is_read=True)


@pytest.mark.parametrize(
    ("records", "brokers"),
    [
        ((), ()),
        ((register(10),), (FENCED,)),
        ((register(10, fenced=False),), (RUNNING,)),
        ((register(10), change(10, -1)), (RUNNING,)),
        ((register(10), change(10, -1), change(10, 0)), (RUNNING,)),
        ((register(10), change(10, -1), change(10, 1)), (FENCED,)),
        ((register(10), metadata_record(UnfenceBrokerRecord(10, 1))), (RUNNING,)),
        ((register(10, fenced=False), metadata_record(FenceBrokerRecord(10, 1))), (FENCED,)),
        ((register(10), metadata_record(UnregisterBrokerRecord(10, 1))), ()),
        ((register(10), change(10, -1), register(10)), (FENCED,)),  # It has started again.
        ((register(11), register(10)), (FENCED, RegisteredBroker(11, is_fenced=True))),
        ((change(10, -1),), ()),  # What was before the beginning is not known.
    ],
)
def test_brokers(records: tuple[bytes, ...], brokers: tuple[RegisteredBroker, ...]) -> None:
    assert cluster_of(*records).brokers == brokers


@pytest.mark.parametrize(
    ("records", "widest"),
    [
        ((), None),
        ((topic("orders"), partition([1, 2])), ("orders", 2)),
        ((topic("orders"), partition([1, 2]), partition([3])), ("orders", 2)),
        ((topic("orders"), partition([1]), topic("big", OTHER), partition([1, 2, 3], OTHER)), ("big", 3)),
        ((topic("orders"), partition([1, 2]), metadata_record(RemoveTopicRecord(UUID(int=5)))), None),
        ((partition([1, 2]),), None),
    ],
)
def test_widest_topic(records: tuple[bytes, ...], widest: tuple[str, int] | None) -> None:
    assert cluster_of(*records).widest_topic == widest


KAFKAS = {"metadata_version": VersionRange(7, 30), "kraft_version": VersionRange(0, 1)}
OURS = {name.replace(".", "_"): levels for name, levels in claimed_features(["metadata.version"]).items()}


@pytest.mark.parametrize(
    ("records", "controllers", "witnesses"),
    [
        ((), set(), set()),
        ((register_controller(1, **KAFKAS), register_controller(3, **OURS)), {1}, {3}),
        ((register_controller(1),), {1}, set()),
        ((register_controller(3, **KAFKAS), register_controller(3, **OURS)), set(), {3}),  # It has been replaced.
        ((register_controller(3, **OURS), unregister_controller(3), unregister_controller(2)), set(), set()),
    ],
)
def test_controllers(records: tuple[bytes, ...], controllers: set[int], witnesses: set[int]) -> None:
    cluster = cluster_of(*records)
    assert (cluster.controllers, cluster.witnesses) == (controllers, witnesses)
