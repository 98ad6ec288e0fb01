"""What `kraft.kafka.records` asks for."""

from __future__ import annotations

import pytest

from kraft_trio.protocol.kafka_records import SETTINGS, RecordDemand, record_demand

NOTHING, READABLE, NO_RECORDS = RecordDemand.NOTHING, RecordDemand.READABLE, RecordDemand.NO_RECORDS


@pytest.mark.parametrize(
    ("setting", "topic", "kafka_reads", "demand"),
    [
        ("auto", "orders", False, NOTHING),
        ("auto", "orders", True, READABLE),
        ("auto", "__cluster_metadata", False, NOTHING),
        ("auto", "__cluster_metadata", True, NO_RECORDS),
        ("readable", "orders", False, READABLE),
        ("readable", "orders", True, READABLE),
        ("readable", "__cluster_metadata", True, READABLE),
        ("any", "orders", True, NOTHING),
        ("any", "__cluster_metadata", True, NOTHING),
    ],
)
def test_each_setting(setting: str, topic: str, kafka_reads: bool, demand: RecordDemand) -> None:
    assert setting in SETTINGS
    assert record_demand(setting, topic, kafka_reads=kafka_reads) == demand
