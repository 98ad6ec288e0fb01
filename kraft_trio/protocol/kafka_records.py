"""Which records a log may take while replicas of Apache Kafka read it.

See docs/reference/kafka.md#records-that-kafka-can-read.

A replica of Kafka ends for good at a record that it cannot read, and again at each start.  Its controllers can read no
records but their own on the topic of the metadata.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

METADATA_TOPIC: Final = "__cluster_metadata"

AUTOMATIC: Final = "auto"
READABLE_ONLY: Final = "readable"
ANY: Final = "any"
SETTINGS: Final = (AUTOMATIC, READABLE_ONLY, ANY)
"""The values of `kraft.kafka.records`."""


class RecordDemand(Enum):
    """What a leader asks of a batch of records."""

    NOTHING = "nothing"
    READABLE = "Kafka's raft can read it"
    NO_RECORDS = "there is none: Kafka's controllers write alone"


def record_demand(setting: str, topic_name: str, *, kafka_reads: bool) -> RecordDemand:
    """Return what `kraft.kafka.records` asks for, when replicas of Kafka read the log or do not."""
    if setting == READABLE_ONLY:
        return RecordDemand.READABLE
    if setting == ANY or not kafka_reads:
        return RecordDemand.NOTHING
    return RecordDemand.NO_RECORDS if topic_name == METADATA_TOPIC else RecordDemand.READABLE
