"""Changes of the metadata of Apache Kafka's own controllers as a stream, through leaders and trimmed logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from harness.kafka import why_no_kafka
from harness.waiting import wait_until
from kraft_trio.spark.live import change_rows
from kraft_trio.spark.live.quorum import DataLossError
from kraft_trio.spark.live.reader import KraftStreamReader
from kraft_trio.spark.metadata.changes import CHANGE_COLUMNS
from kraft_trio.spark.metadata.reader import MetadataReader
from kraft_trio.spark.schemas import arrow_schema
from tests.interop.kafka_broker import Broker, create_topic
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers
from tests.spark.live.reading import Offset, batches, latest, make_reader_of

pytestmark = [
    pytest.mark.interop,
    pytest.mark.nightly,
    pytest.mark.skipif(why_no_kafka() is not None, reason=str(why_no_kafka())),
]

KEPT = ("offset", "epoch", "controller", "record", "entity", "key", "operation", "changed", "before", "after", "error")


def rows(reader: KraftStreamReader, start: Offset, end: Offset) -> list[dict[str, Any]]:
    return [row for batch in batches(reader, start, end) for row in batch.to_pylist()]


def in_directory(directory: Path) -> list[dict[str, Any]]:
    reader = MetadataReader(
        {"path": str(directory), "content": "changes"}, from_arrow_schema(arrow_schema(CHANGE_COLUMNS))
    )
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_each_change_comes_once_when_another_controller_leads(controllers: Controllers, tmp_path: Path) -> None:
    wait_until("Kafka's second controller observes", lambda: controllers.replicas(2) == ([1], [2]), JVM_SECONDS)
    broker = Broker(tmp_path, controllers)
    try:
        reader = make_reader_of(f"127.0.0.1:{controllers.ports[2]}", content="changes")
        position = reader.initialOffset()
        found: list[dict[str, Any]] = []

        def follow() -> None:
            nonlocal position
            end = latest(reader, position)
            found.extend(rows(reader, position, end))
            position = end

        for number in range(2):
            create_topic(broker.endpoint, f"before-{number}", JVM_SECONDS)
            follow()
        for change in (("add-controller", "-c", str(controllers.properties(2))), ("remove-controller", "-i", "1")):
            changed = controllers.ask(2, "metadata-quorum", *change)
            assert changed.returncode == 0, changed.stderr
        wait_until("the other controller leads alone", lambda: controllers.leads_alone(2), JVM_SECONDS)
        create_topic(broker.endpoint, "after", JVM_SECONDS)
        change_rows._kept.clear()
        follow()
    finally:
        broker.stop()
    controllers.stop()
    topics = [row["key"] for row in found if row["entity"] == "topics"]
    assert topics == ["before-0", "before-1", "after"]
    kept = {(row["offset"], row["entity"], row["key"]): row for row in in_directory(tmp_path / "controller-2")}
    assert {row["controller"] for row in found} == {1, 2}
    for row in found:
        of_directory = kept.get((row["offset"], row["entity"], row["key"]))
        # The second controller may have begun with a snapshot of the first one.
        if of_directory is not None:
            assert {name: row[name] for name in KEPT} == {name: of_directory[name] for name in KEPT}
    assert len({(row["offset"], row["entity"], row["key"]) for row in found}) == len(found)


class Trimming(Controllers):
    """Their logs begin at the newest snapshot."""

    def write_properties(self, node_id: int) -> None:
        super().write_properties(node_id)
        with self.properties(node_id).open("a") as file:
            file.write("metadata.max.retention.bytes=1\n")


@pytest.fixture
def trimming(tmp_path: Path) -> Iterator[Controllers]:
    made = Trimming(tmp_path, (1,))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_a_trimmed_log_begins_with_what_exists(trimming: Controllers, tmp_path: Path) -> None:
    broker = Broker(tmp_path, trimming)
    try:
        create_topic(broker.endpoint, "orders", JVM_SECONDS)
        address = f"127.0.0.1:{trimming.ports[1]}"
        old = make_reader_of(address, content="changes", startingOffsets="5")
        position = old.initialOffset()
        middle = latest(old, position)

        def begins_later() -> bool:
            return bool(make_reader_of(address, content="changes").initialOffset()["offset"] > middle["offset"])

        wait_until("the log is trimmed", begins_later, JVM_SECONDS)
        change_rows._kept.clear()
        reader = make_reader_of(address, content="changes")
        start = reader.initialOffset()
        found = rows(reader, start, latest(reader, start))
        existing = {(row["entity"], row["key"]) for row in found if row["operation"] == "snapshot"}
        assert {("topics", "orders"), ("partitions", "orders-0"), ("brokers", "10")} <= existing
        assert all(row["before"] is None for row in found if row["operation"] == "snapshot")
        with pytest.raises(DataLossError, match="the log begins at"):
            latest(old, middle)
    finally:
        broker.stop()
