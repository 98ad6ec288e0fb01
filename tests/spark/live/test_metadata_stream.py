"""`content=metadata` and `changes` of a live quorum: its log has metadata records as Kafka's controllers write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from harness.quorum import Quorum
from kraft_trio.errors import ConfigError, ProtocolError
from kraft_trio.metadata.history import History, Made, Origin, Problem
from kraft_trio.spark.live import change_rows
from kraft_trio.spark.live.reader import KraftStreamReader
from kraft_trio.spark.metadata.changes import as_json, rows_of
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from tests.acceptance.conftest import MakeQuorum
from tests.metadata.test_history import TOPIC, changed, partition
from tests.spark.live.reading import Offset, batches, latest, make_reader, make_reader_of
from tests.support.metadata_histories import RandomHistory, framed

IN_BATCH = 10


def produce(quorum: Quorum, values: Sequence[bytes]) -> None:
    for at in range(0, len(values), IN_BATCH):
        some = [NewRecord(value) for value in values[at : at + IN_BATCH]]
        assert quorum.produce_batch(encode_batch(some, timestamp_ms=1_764_000_000_000)).error.name == "none"


def rows(reader: KraftStreamReader, start: Offset, end: Offset) -> list[dict[str, Any]]:
    return [row for batch in batches(reader, start, end) for row in batch.to_pylist()]


def expected(values: Iterable[bytes]) -> list[tuple[Any, ...]]:
    """Of each change or problem what does not depend on its place in the log."""
    history = History()
    made: list[tuple[Any, ...]] = []
    for at, value in enumerate(values):
        for step in history.add(Origin(at, 1, None), value):
            if isinstance(step, Problem):
                made.append((step.reason,))
            else:
                made += map(shown, rows_of(step))
    return made


def shown(row: Any) -> tuple[Any, ...]:
    return row.record, row.entity, row.key, row.operation, row.changed, as_json(row.before), as_json(row.after)


def of_row(row: dict[str, Any]) -> tuple[Any, ...]:
    if row["error"] is not None:
        return (row["error"],)
    names = ("record", "entity", "key", "operation", "changed", "before", "after")
    return tuple(row[name] for name in names)


@pytest.fixture(scope="module")
def one(make_module_quorum: MakeQuorum) -> Quorum:
    quorum: Quorum = make_module_quorum(1)
    quorum.start()
    produce(quorum, VALUES)
    return quorum


VALUES = RandomHistory(5).framed(300)


def test_records_have_typed_columns(one: Quorum) -> None:
    reader = make_reader(one, content="metadata", types="TOPIC_RECORD")
    start = reader.initialOffset()
    found = rows(reader, start, latest(reader, start))
    names = {row["topic_record"]["name"] for row in found}
    assert {row["type"] for row in found} == {"TOPIC_RECORD"}
    assert names <= {"orders", "payments", "clicks", "audit"}
    assert {row["cluster_id"] for row in found} == {one.cluster_id}
    assert "partition_record" not in found[0]


@pytest.mark.parametrize("most", [None, 7])
def test_each_change_comes_once_in_any_micro_batches(one: Quorum, most: int | None) -> None:
    change_rows._kept.clear()
    reader = make_reader(one, content="changes")
    position = reader.initialOffset()
    found: list[dict[str, Any]] = []
    while (end := latest(reader, position, most)) != position:
        found += rows(reader, position, end)
        position = end
    assert [of_row(row) for row in found] == expected(VALUES)
    assert {row["controller"] for row in found if row["error"] is None} == {1}


def test_a_repeated_task_and_another_process_read_the_same(one: Quorum) -> None:
    reader = make_reader(one, content="changes", entities="partitions")
    start = reader.initialOffset()
    middle = latest(reader, start, 150)
    end = latest(reader, middle)
    first = [rows(reader, *pair) for pair in ((start, middle), (middle, end), (middle, end))]
    change_rows._kept.clear()
    again = rows(make_reader(one, content="changes", entities="partitions"), middle, end)
    assert first[1] == first[2] == again
    assert again
    assert {row["entity"] for row in again if row["error"] is None} == {"partitions"}


def test_failfast_ends_at_what_kafka_refuses(one: Quorum) -> None:
    reader = make_reader(one, content="changes", mode="FAILFAST")
    start = reader.initialOffset()
    assert any(isinstance(step, Problem) for step in steps(VALUES))
    with pytest.raises(ProtocolError, match="offset"):
        rows(reader, start, latest(reader, start))


def steps(values: Iterable[bytes]) -> list[Made | Problem]:
    history = History()
    return [step for at, value in enumerate(values) for step in history.add(Origin(at, 1, None), value)]


def test_changes_go_across_the_loss_of_leaders(make_quorum: MakeQuorum) -> None:
    quorum: Quorum = make_quorum(3)
    quorum.start()
    values = [framed(one) for one in (TOPIC, *map(partition, range(4)), changed(0, isr=(1,)), changed(1, leader=2))]
    reader = make_reader(quorum, content="changes")
    position = reader.initialOffset()
    found: list[dict[str, Any]] = []
    for at in range(0, len(values), 3):
        produce(quorum, values[at : at + 3])
        end = latest(reader, position)
        found += rows(reader, position, end)
        position = end
        if at == 0:
            # It cannot start again: a node of ours refuses a directory with Kafka's metadata.
            quorum.leader().kill()
    assert [of_row(row) for row in found] == expected(values)
    assert len({row["controller"] for row in found}) == len({row["epoch"] for row in found}) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"content": "topics"}, "option content=topics, expected records, metadata or changes; all else needs load"),
        ({"content": "metadata", "entities": "topics"}, "option entities=topics: says nothing of content=metadata"),
        ({"types": "TOPIC_RECORD"}, "option types=TOPIC_RECORD: says nothing of content=records"),
        ({"content": "changes", "includeControl": "true"}, "option includeControl: says nothing of content=changes"),
    ],
)
def test_options_that_do_not_apply_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_reader_of("one:1", **options)
