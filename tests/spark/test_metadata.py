"""`content=metadata`, `changes`, `topics` and so on: rows of Kafka's metadata in replicas' directories."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
from pyspark.sql.pandas.types import from_arrow_schema

from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.metadata.columns import columns_of
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.history import History, Origin
from kraft_trio.spark.directories.partitions import checked_options
from kraft_trio.spark.metadata.contents import metadata_columns
from kraft_trio.spark.metadata.reader import MetadataReader
from kraft_trio.spark.schemas import METADATA_CONTENTS, STATES, arrow_schema
from kraft_trio.wire import metadata_schemas as schemas
from kraft_trio.wire.metadata_frame import decode_metadata_frame
from kraft_trio.wire.metadata_schemas import SCHEMAS
from tests.metadata.test_history import TOPIC, broker, changed, partition
from tests.spark.directories import make_node
from tests.support.metadata_histories import RandomHistory, framed
from tests.support.metadata_logs import START_MS, batch_of, log_of, take_snapshot


def reader(path: Path | str, content: str, **options: Any) -> MetadataReader:
    given = {"path": str(path), "content": content, **{name: str(value) for name, value in options.items()}}
    columns = metadata_columns(content, checked_options(given)["types"])
    return MetadataReader(given, from_arrow_schema(arrow_schema(columns)))


def rows_of(made: MetadataReader) -> list[dict[str, Any]]:
    return [row for part in made.partitions() for batch in made.read(part) for row in batch.to_pylist()]


def load(path: Path | str, content: str, **options: Any) -> list[dict[str, Any]]:
    return rows_of(reader(path, content, **options))


SHORT = (TOPIC, partition(0), partition(1), changed(0, isr=(1,)), broker(), changed(1, leader=2))


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """Offset 0 elects node 3, and SHORT follows."""
    return make_node(tmp_path, 1, (0, log_of([framed(one) for one in SHORT])))


def test_a_record_has_the_fields_of_its_type(short: Path) -> None:
    rows = load(short, "metadata")
    assert [(row["offset"], row["type"], row["version"]) for row in rows] == [
        (1, "TOPIC_RECORD", 0),
        (2, "PARTITION_RECORD", 2),
        (3, "PARTITION_RECORD", 2),
        (4, "PARTITION_CHANGE_RECORD", 2),
        (5, "REGISTER_BROKER_RECORD", 4),
        (6, "PARTITION_CHANGE_RECORD", 2),
    ]
    assert rows[0]["topic_record"] == {"name": "orders", "topic_id": "AAAAEAAAAAAAAAAAAAAAAA"}
    assert rows[3]["partition_change_record"]["isr"] == [1]
    assert rows[3]["topic_record"] is None
    assert rows[0]["timestamp"] == datetime.fromtimestamp((START_MS + 1) / 1000, UTC)
    assert {row["node"] for row in rows} == {1}


@pytest.mark.parametrize("seed", range(3))
def test_typed_records_are_those_of_the_frames(tmp_path: Path, seed: int) -> None:
    history = RandomHistory(seed).framed(500)
    rows = load(make_node(tmp_path, 1, (0, log_of(history))), "metadata", maxPartitionBytes=5000)
    assert len(rows) == len(history)
    by_class = {schema.record: (schema, columns_of(schema)) for schema in SCHEMAS.values()}
    for row, value in zip(rows, history, strict=True):
        schema, columns = by_class[type(frame_of(value))]
        assert row["error"] is None
        expected = {column.name: column.of(frame_of(value)) for column in columns}
        assert without_time(row[schema.type_name.lower()]) == without_time(expected)


def frame_of(value: bytes) -> Any:
    return decode_metadata_frame(value).record()


def test_only_named_types_are_decoded(tmp_path: Path) -> None:
    damaged = framed(TOPIC)[:-1]
    directory = make_node(tmp_path, 1, (0, log_of([damaged, framed(partition(0))])))
    rows = load(directory, "metadata", types="partition_record")
    assert [row["type"] for row in rows] == ["PARTITION_RECORD"]
    assert "topic_record" not in rows[0]
    filtered = reader(directory, "metadata")
    filtered.pushFilters([EqualTo(("type",), "PARTITION_RECORD"), GreaterThanOrEqual(("offset",), 2)])
    assert [(row["offset"], row["error"]) for row in rows_of(filtered)] == [(2, None)]
    [bad, good] = load(directory, "metadata")
    assert (bad["type"], bad["message"], good["error"]) == ("TOPIC_RECORD", damaged[3:], None)
    assert bad["error"].startswith("TOPIC_RECORD: ")


def test_what_is_unknown_is_shown_as_bytes(tmp_path: Path) -> None:
    unknown, later = bytes([1, 99, 0, 7]), bytes([1, 2, 9, 7])
    rows = load(make_node(tmp_path, 1, (0, log_of([unknown, later, b"", b"words"]))), "metadata")
    assert [(row["type"], row["version"], row["message"]) for row in rows] == [
        ("UNKNOWN(99)", 0, b"\7"),
        ("TOPIC_RECORD", 9, b"\7"),
        (None, None, None),
        (None, None, None),
    ]
    assert [row["error"] is not None for row in rows] == [True] * 4


def test_a_change_tells_who_made_it_and_what_was_before(short: Path) -> None:
    rows = load(short, "changes")
    [shrunk] = [row for row in rows if "isr" in row["changed"]]
    assert (shrunk["key"], shrunk["operation"], shrunk["controller"], shrunk["offset"]) == ("orders-0", "update", 3, 4)
    assert shrunk["changed"] == ["isr", "partition_epoch"]
    assert json.loads(shrunk["before"])["isr"] == [1, 2]
    assert json.loads(shrunk["after"])["isr"] == [1]
    assert json.loads(shrunk["after"])["topic"] == "orders"
    assert shrunk["record"] == "PARTITION_CHANGE_RECORD"
    created = [row["key"] for row in rows if row["operation"] == "create"]
    assert created == ["orders", "orders-0", "orders-1", "1"]


def test_changes_are_read_from_an_offset_on(short: Path) -> None:
    assert [row["offset"] for row in load(short, "changes", startingOffsets=4, endingOffsets=6)] == [4, 5]
    [change] = load(short, "changes", startingOffsets=6)
    assert json.loads(change["before"])["leader"] == 1
    filtered = reader(short, "changes")
    filtered.pushFilters([In(("entity",), ("brokers",)), EqualTo(("node",), 1)])
    assert [row["key"] for row in rows_of(filtered)] == ["1"]
    assert load(short, "changes", entities="topics, brokers")[0]["entity"] == "topics"


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (LessThan(("offset",), 4), [1, 3]),
        (LessThanOrEqual(("offset",), 4), [1, 3, 4]),
        (EqualTo(("offset",), 3), [3]),
        (GreaterThanOrEqual(("offset",), 4), [4, 6]),
        (LessThan(("offset",), 100), [1, 3, 4, 6]),
    ],
)
def test_a_filter_leaves_the_changes_of_a_transaction_that_ends_later(
    tmp_path: Path, filter: Any, expected: list[int]
) -> None:
    """Spark applies the filter again.  One of an offset beyond the log is no request for a later state."""
    begin, end = schemas.BeginTransactionRecord("x"), schemas.EndTransactionRecord()
    records = (TOPIC, begin, partition(0), partition(1), end, changed(0, isr=(1,)))
    filtered = reader(make_node(tmp_path, 1, (0, log_of([framed(one) for one in records]))), "changes")
    filtered.pushFilters([filter])
    rows = rows_of(filtered)
    assert [row["error"] for row in rows] == [None] * len(rows)
    compare = {LessThan: int.__lt__, LessThanOrEqual: int.__le__, EqualTo: int.__eq__, GreaterThanOrEqual: int.__ge__}
    assert [row["offset"] for row in rows if compare[type(filter)](row["offset"], filter.value)] == expected


@pytest.mark.parametrize("seed", range(3))
def test_states_are_those_of_a_replay(tmp_path: Path, seed: int) -> None:
    values = RandomHistory(seed).framed(600)
    directory = make_node(tmp_path, 1, (0, log_of(values)))
    for as_of in (1, 250, 601):
        history = History()
        for at, value in enumerate(values[: as_of - 1]):
            list(history.add(Origin(at, 1, None), value))
        for content in STATES:
            rows = [row for row in load(directory, content, asOfOffset=as_of) if row["error"] is None]
            names = [name for name, _ in ENTITIES[content].types]
            expected = list(ENTITIES[content].rows(history.image))
            assert [without_time({name: row[name] for name in names}) for row in rows] == [*map(without_time, expected)]


def without_time(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.endswith("_timestamp")}


def snapshot_of(values: Iterable[bytes]) -> list[bytes]:
    history = History()
    for at, value in enumerate(values):
        list(history.add(Origin(at, 1, None), value))
    return [framed(record) for entity in ENTITIES for record in history.image.things(entity)]


def test_a_state_begins_with_a_snapshot_if_the_log_is_trimmed(tmp_path: Path) -> None:
    values = [framed(one) for one in SHORT]
    whole = make_node(tmp_path / "whole", 1, (0, log_of(values)))
    trimmed = make_node(tmp_path / "trimmed", 1, (4, log_of(values[3:], 4)))
    for content in ("topics", "changes"):
        [missing] = load(trimmed, content)
        assert missing["error"] == ("the state as of offset latest is incomplete: no snapshot, and the log begins at 4")
    take_snapshot(trimmed, 4, snapshot_of(values[:3]))
    for content in ("topics", "partitions", "brokers"):
        states = [[{**row, "directory": None} for row in load(directory, content)] for directory in (whole, trimmed)]
        assert states[0] == states[1]
    rows = load(trimmed, "changes")
    assert [(row["operation"], row["key"], row["offset"]) for row in rows] == [
        ("snapshot", "orders", None),
        ("snapshot", "orders-0", None),
        ("snapshot", "orders-1", None),
        ("update", "orders-0", 4),
        ("create", "1", 5),
        ("update", "orders-1", 6),
    ]
    assert json.loads(rows[3]["before"])["isr"] == [1, 2]


def test_the_records_that_a_controller_was_formatted_with_count_once_the_log_has_them(tmp_path: Path) -> None:
    """The first active controller writes them into the log; until then, Kafka's nodes do not apply them."""
    level = framed(schemas.FeatureLevelRecord("metadata.version", 30))
    directory = make_node(tmp_path, 1, (0, log_of([framed(TOPIC), level])))
    take_snapshot(directory, 0, [level], epoch=0)
    assert [len(load(directory, "features", asOfOffset=offset)) for offset in (1, 2, 3)] == [0, 0, 1]
    assert load(directory, "features", asOfTimestamp=START_MS) == []
    assert [(row["offset"], row["operation"]) for row in load(directory, "changes")] == [(1, "create"), (2, "create")]


def test_a_state_as_of_a_time(short: Path, tmp_path: Path) -> None:
    at_four = START_MS + 4
    assert [row["isr"] for row in load(short, "partitions", asOfTimestamp=at_four)] == [[1], [1, 2]]
    assert [row["isr"] for row in load(short, "partitions", asOfTimestamp=at_four - 1)] == [[1, 2], [1, 2]]
    text = datetime.fromtimestamp(at_four / 1000, UTC).isoformat()
    assert {row["end_offset"] for row in load(short, "partitions", asOfTimestamp=text)} == {5}
    take_snapshot(short, 5, snapshot_of(framed(one) for one in SHORT[:4]))
    assert [row["isr"] for row in load(short, "partitions", asOfTimestamp=at_four)] == [[1], [1, 2]]
    assert [row["isr"] for row in load(short, "partitions", asOfTimestamp=at_four - 1)] == [[1, 2], [1, 2]]
    for wrong in ("yesterday", "-5"):
        with pytest.raises(ConfigError, match=f"asOfTimestamp={wrong}, expected milliseconds since 1970, or a time"):
            load(short, "topics", asOfTimestamp=wrong)


def test_a_record_that_kafka_refuses_is_told(tmp_path: Path) -> None:
    values = [framed(one) for one in (TOPIC, changed(4, isr=(1,)), partition(0))]
    directory = make_node(tmp_path, 1, (0, log_of(values)))
    problem = "PartitionChangeRecord: the topic orders has no partition 4"
    assert [row["error"] for row in load(directory, "partitions")] == [problem, None]
    assert [row["error"] for row in load(directory, "topics")] == [None]
    refused = load(directory, "changes")[1]
    assert (refused["offset"], refused["record"], refused["error"]) == (2, "PARTITION_CHANGE_RECORD", problem)
    with pytest.raises(StorageError, match=problem):
        load(directory, "partitions", mode="FAILFAST")


def test_records_of_other_kinds_are_not_decoded(tmp_path: Path) -> None:
    damaged = framed(broker())[:5]
    directory = make_node(tmp_path, 1, (0, log_of([framed(TOPIC), damaged, framed(partition(0)), damaged])))
    for content, errors in (("topics", 0), ("partitions", 0), ("brokers", 2)):
        rows = load(directory, content)
        assert len([row for row in rows if row["error"] is not None]) == errors
        assert {row["end_offset"] for row in rows} == {5}
    assert [row["key"] for row in load(directory, "changes", entities="partitions")] == ["orders-0"]
    assert [row["error"] is None for row in load(directory, "changes")] == [True, False, True, False]
    first = make_node(tmp_path, 3, (0, batch_of(0, [framed(broker())])))
    assert load(first, "topics", asOfOffset=1) == []
    unknown = make_node(tmp_path, 2, (0, log_of([bytes([1, 99, 0, 0])])))
    [row] = load(unknown, "topics")
    assert "99" in row["error"]


def test_replicas_are_told_apart(tmp_path: Path) -> None:
    values = [framed(one) for one in SHORT]
    for id in (1, 2):
        make_node(tmp_path, id, (0, log_of(values[: 2 + id])))
    rows = load(f"{tmp_path}/node*", "partitions")
    assert [(row["node"], row["end_offset"]) for row in rows] == [(1, 4), (1, 4), (2, 5), (2, 5)]
    filtered = reader(f"{tmp_path}/node*", "partitions")
    filtered.pushFilters([EqualTo(("node",), 2)])
    assert {row["node"] for row in rows_of(filtered)} == {2}


@pytest.mark.parametrize("content", METADATA_CONTENTS)
def test_any_columns_can_be_asked_for_alone(short: Path, content: str) -> None:
    columns = metadata_columns(content)
    whole = load(short, content)
    for column in columns:
        given = {"path": str(short), "content": content}
        some = rows_of(MetadataReader(given, from_arrow_schema(arrow_schema([column]))))
        assert some == [{column.name: row[column.name]} for row in whole]


@pytest.mark.parametrize(
    ("content", "option", "value", "said"),
    [
        ("metadata", "types", "TOPICS", "option types=TOPICS, expected names of record types"),
        ("changes", "entities", "shoes", "option entities=shoes, expected some of topics, partitions"),
        ("topics", "types", "TOPIC_RECORD", "option types=TOPIC_RECORD: says nothing of content=topics"),
        ("changes", "asOfOffset", "5", "option asOfOffset=5: says nothing of content=changes"),
        ("metadata", "value.format", "msgpack", "option value.format=msgpack: says nothing of content=metadata"),
    ],
)
def test_options_that_do_not_apply_are_refused(short: Path, content: str, option: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(short, content, **{option: value})


def test_secrets_stay_out_of_typed_records(tmp_path: Path) -> None:
    credential = schemas.UserScramCredentialRecord("alice", 1, b"pepper", b"pepper", b"pepper", 4096)
    config = schemas.ConfigRecord(4, "1", "ssl.key.password", "pepper")
    directory = make_node(tmp_path, 1, (0, log_of([framed(credential), framed(config)])))
    for content in ("metadata", "changes", "configs", "scram"):
        assert "pepper" not in repr(load(directory, content))


def test_an_unfinished_transaction_has_no_effect(tmp_path: Path) -> None:
    values = [framed(one) for one in (TOPIC, schemas.BeginTransactionRecord("x"), partition(0))]
    directory = make_node(tmp_path, 1, (0, log_of(values)))
    assert load(directory, "partitions") == []
    assert [row["type"] for row in load(directory, "metadata")][1:] == ["BEGIN_TRANSACTION_RECORD", "PARTITION_RECORD"]


def test_times_of_tokens_are_times(tmp_path: Path) -> None:
    token = schemas.DelegationTokenRecord("User:a", "User:b", (), START_MS, -1, 2**62, "t")
    directory = make_node(tmp_path, 1, (0, log_of([framed(token)])))
    [row] = load(directory, "delegation_tokens")
    assert row["issue_timestamp"] == datetime.fromtimestamp(START_MS / 1000, UTC)
    assert (row["max_timestamp"], row["expiration_timestamp"]) == (None, None)
