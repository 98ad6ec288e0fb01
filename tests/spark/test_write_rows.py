"""What a writer makes of rows, and which columns it takes."""

from __future__ import annotations

from datetime import UTC, datetime

import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kraft_trio.errors import ConfigError
from kraft_trio.spark.writing.batches import in_one_order
from kraft_trio.spark.writing.identity import Write
from kraft_trio.spark.writing.options import read_write_options
from kraft_trio.spark.writing.rows import RecordMaker
from kraft_trio.spark.writing.writer import make_stream_writer, make_writer
from kraft_trio.storage.batches.batch import NewRecord

QUORUM = {"bootstrapControllers": "one:9093"}
HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))


TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()
HEADER_LIST = ArrayType(StructType([StructField("key", TEXT), StructField("value", BYTES)]))


def columns(*fields: tuple[str, DataType]) -> StructType:
    return StructType([StructField(*field) for field in fields])


INNER = columns(("a", INT))


def test_a_value_alone() -> None:
    rows = pa.record_batch({"value": pa.array(["a", "ü", None])})
    made = RecordMaker.of(columns(("value", TEXT)), is_msgpack=False).records_of(rows)
    assert made == [NewRecord(b"a"), NewRecord("ü".encode()), NewRecord(None)]


@pytest.mark.parametrize("is_msgpack", [True, False])
def test_columns_may_be_named_in_any_case(is_msgpack: bool) -> None:
    """But entries of a MessagePack value keep their names."""
    rows = pa.record_batch({"Value": pa.array(["a"]), "KEY": pa.array(["k"])})
    maker = RecordMaker.of(columns(("Value", TEXT), ("KEY", TEXT)), is_msgpack=is_msgpack)
    value = msgpack.packb({"Value": "a"}) if is_msgpack else b"a"
    assert maker.records_of(rows) == [NewRecord(value, b"k")]


def test_key_value_and_headers() -> None:
    rows = pa.record_batch(
        {
            "headers": pa.array([[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], None], HEADERS),
            "key": pa.array([b"k", None], pa.binary()),
            "value": pa.array([b"v", b""], pa.binary()),
        }
    )
    schema = columns(("headers", HEADER_LIST), ("key", BYTES), ("value", BYTES))
    made = RecordMaker.of(schema, is_msgpack=False).records_of(rows)
    assert made == [NewRecord(b"v", b"k", (("h", b"1"), ("n", None))), NewRecord(b"", None)]


def test_a_header_without_a_key_is_refused() -> None:
    rows = pa.record_batch({"headers": pa.array([[{"key": None, "value": b"1"}]], HEADERS), "value": pa.array(["v"])})
    maker = RecordMaker.of(columns(("headers", HEADER_LIST), ("value", TEXT)), is_msgpack=False)
    with pytest.raises(ConfigError, match=r"column headers: .*a header without a key"):
        maker.records_of(rows)


def test_rows_of_kafkas_source_can_be_written_as_they_are() -> None:
    """What says where they come from is left out, as Spark's Kafka sink does."""
    schema = columns(
        *(("key", BYTES), ("value", BYTES), ("topic", TEXT), ("partition", INT), ("offset", LONG)),
        *(("timestamp", TimestampType()), ("timestampType", INT), ("headers", HEADER_LIST)),
    )
    columns_of_a_row = {
        "key": pa.array([b"k"]),
        "value": pa.array([b"v"]),
        "topic": pa.array(["orders"]),
        "partition": pa.array([3], pa.int32()),
        "offset": pa.array([77]),
        "timestamp": pa.array([datetime(2026, 1, 2, tzinfo=UTC)]),
        "timestampType": pa.array([0], pa.int32()),
        "headers": pa.array([[{"key": "h", "value": b"1"}]], HEADERS),
    }
    made = RecordMaker.of(schema, is_msgpack=False).records_of(pa.record_batch(columns_of_a_row))
    assert made == [NewRecord(b"v", b"k", (("h", b"1"),))]


def test_columns_as_a_map() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    rows = pa.record_batch(
        {
            "key": pa.array(["k"]),
            "n": pa.array([None], pa.int64()),
            "x": pa.array([0.5]),
            "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            "inner": pa.array([{"list": [True, None], "at": at}]),
        }
    )
    inner = StructType([StructField("list", ArrayType(BooleanType())), StructField("at", TimestampType())])
    schema = columns(("key", TEXT), ("n", LONG), ("x", DoubleType()), ("tags", MapType(TEXT, INT)), ("inner", inner))
    (made,) = RecordMaker.of(schema, is_msgpack=True).records_of(rows)
    assert made.key == b"k"
    assert msgpack.unpackb(made.value or b"", timestamp=3) == {
        "n": None,
        "x": 0.5,
        "tags": {"a": 1},
        "inner": {"list": [True, None], "at": at},
    }


@pytest.mark.parametrize(
    ("fields", "value_format", "named"),
    [
        ([("key", TEXT)], "raw", "columns key: there is no column value"),
        ([("value", INT)], "raw", "column value is int, expected binary or string"),
        ([("key", LONG), ("value", TEXT)], "raw", "column key is bigint, expected binary or string"),
        ([("value", TEXT), ("n", INT)], "raw", "column n: expected key, value and headers only"),
        ([("value", TEXT), ("headers", TEXT)], "raw", "column headers is string, expected array<struct<key:string,v"),
        (
            [("value", TEXT), ("timestamp", TEXT)],
            "raw",
            "column timestamp is string, expected timestamp, as of a row of",
        ),
        (
            [("value", TEXT), ("Partition", LONG)],
            "raw",
            "column partition is bigint, expected int, as of a row of Spark",
        ),
        ([("value", TEXT), ("value", TEXT)], "raw", "column value: there is more than one of that name"),
        ([("key", TEXT)], "msgpack", "columns key: expected a column other than key"),
        ([("key", INT), ("n", INT)], "msgpack", "column key is int, expected binary or string"),
        ([("n", DecimalType(10, 2))], "msgpack", "column n is decimal(10,2), which MessagePack does not have: cast it"),
        ([("s", columns(("a", ArrayType(DateType()))))], "msgpack", "column s.a[] is date"),
        ([("m", MapType(TEXT, TimestampNTZType()))], "msgpack", "column m.value is timestamp_ntz"),
        (
            [("m", MapType(DecimalType(4, 1), TEXT))],
            "msgpack",
            "column m.key is decimal(4,1), which is no key of",
        ),
        ([("m", MapType(INNER, INT))], "msgpack", "column m.key is struct<a:int>, which is no key of a map here"),
        ([("s", columns(("m", MapType(ArrayType(INT), INT))))], "msgpack", "column s.m.key is array<int>"),
        ([("m", MapType(TEXT, MapType(MapType(TEXT, INT), INT)))], "msgpack", "column m.value.key is map<string,int>"),
        ([("l", ArrayType(columns(("a", INT), ("a", INT))))], "msgpack", "column l[].a: there is more than one of"),
    ],
)
def test_columns_that_no_record_can_be_made_of(
    fields: list[tuple[str, DataType]], value_format: str, named: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make_writer({**QUORUM, "value.format": value_format}, columns(*fields), overwrite=False)
    assert named in str(refused.value)


def test_a_log_is_not_overwritten() -> None:
    with pytest.raises(ConfigError, match="expected append: nothing in a log can be replaced"):
        make_writer(QUORUM, columns(("value", TEXT)), overwrite=True)


@pytest.mark.parametrize(
    ("option", "text", "named"),
    [
        ("maxBatchBytes", "10", "option maxBatchBytes=10, expected bytes, 1024 or more"),
        ("value.format", "json", "option value.format=json, expected raw or msgpack"),
        ("startingOffsets", "0", "option startingOffsets=0: there is no such option"),
    ],
)
def test_options_that_a_writer_does_not_take(option: str, text: str, named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_write_options({**QUORUM, option: text})
    assert named in str(refused.value)


def test_what_spark_adds_to_the_options_is_passed_over() -> None:
    assert read_write_options({**QUORUM, "checkpointLocation": "/x", "PATH": "/y"}) == read_write_options(QUORUM)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"txnAppId": "a"}, "option txnAppId=a alone, expected txnAppId and txnVersion, or neither"),
        ({"txnVersion": "3"}, "option txnVersion=3 alone, expected txnAppId and txnVersion, or neither"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "option txnVersion=-1, expected a whole number"),
        (
            {"txnAppId": "a", "txnVersion": "1", "exactlyOnce": "false"},
            "option txnAppId=a, expected none with exactlyOnce=false",
        ),
    ],
)
def test_names_of_a_write_that_are_not_taken(options: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_write_options({**QUORUM, **options})
    assert named in str(refused.value)


def test_a_stream_has_its_own_name() -> None:
    with pytest.raises(ConfigError, match="option txnAppId=a, expected none for a stream"):
        make_stream_writer({**QUORUM, "txnAppId": "a", "txnVersion": "1"}, columns(("value", TEXT)), overwrite=False)


def test_a_task_whose_micro_batch_is_not_known() -> None:
    with pytest.raises(ConfigError, match=r"the task's sql\.streaming\.queryId is None.*with exactlyOnce=false"):
        Write.of_micro_batch({"streaming.sql.batchId": "3"}.get)
    found = Write.of_micro_batch({"streaming.sql.batchId": "3", "sql.streaming.queryId": "q"}.get)
    assert found == Write("q", 3, is_micro_batch=True)


def test_sorted_rows_have_one_order() -> None:
    records = [
        NewRecord(b"b"),
        NewRecord(None),
        NewRecord(b"a", b"k"),
        NewRecord(b"a"),
        NewRecord(b"a", None, (("h", None),)),
        NewRecord(b"a", None, (("h", b""),)),
    ]
    [ordered] = in_one_order([records[:2], records[2:]])
    assert sorted(map(repr, ordered)) == sorted(map(repr, records))
    assert list(in_one_order([records[::-1]])) == [ordered]
