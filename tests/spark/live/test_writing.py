"""Rows written to real quorums and read back: each is there once, but where a task fails after a part of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgpack
import pyarrow as pa
import pytest
import trio
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from harness.quorum import Quorum
from kraft_trio.errors import NetworkError, RecordTooLargeError
from kraft_trio.spark.write_options import read_write_options
from kraft_trio.spark.write_rows import RecordMaker
from kraft_trio.spark.write_writer import Appended, append_all
from tests.acceptance.conftest import MakeQuorum
from tests.spark.live.reading import committed_rows
from tests.spark.live.to_parquet import SECONDS

VALUES = StructType([StructField("value", StringType())])


def append(quorum: Quorum, values: Iterable[list[str]], **options: str) -> Appended:
    """A task's work, without Spark; each list is one Arrow batch."""
    read = read_write_options({"bootstrapControllers": quorum.bootstrap_servers, "timeoutMs": "20000", **options})
    batches = (pa.record_batch({"value": pa.array(texts)}) for texts in values)
    return trio.run(append_all, read, RecordMaker.of(VALUES, is_msgpack=False), batches)


def written(quorum: Quorum) -> list[str]:
    return [(value or b"").decode() for _, value in committed_rows(quorum.nodes[1])]


def test_batches_of_one_task_follow_one_another(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1)
    quorum.start()
    texts = [[f"{number}-{index}" for index in range(100)] for number in range(3)]
    appended = append(quorum, [texts[0], [], *texts[1:]], maxBatchBytes="1024")
    assert appended.records == 300
    assert written(quorum) == [text for batch in texts for text in batch]
    offsets = [offset for offset, _ in committed_rows(quorum.nodes[1])]
    assert (appended.first_offset, appended.last_offset) == (offsets[0], offsets[-1])


def test_a_task_without_rows_asks_nobody(make_quorum: MakeQuorum) -> None:
    assert append(make_quorum(1), []) == Appended()


def test_a_leader_that_dies_between_two_batches(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(3)
    quorum.start()

    def batches() -> Iterator[list[str]]:
        yield ["one", "two"]
        quorum.leader().kill()
        yield ["three", "four"]

    assert append(quorum, batches()).records == 4
    quorum.start([node.id for node in quorum.nodes.values() if not node.running])
    quorum.wait_until_caught_up()
    assert written(quorum) == ["one", "two", "three", "four"]


def test_a_failed_attempt_keeps_its_commits_and_a_retry_restarts(
    make_quorum: MakeQuorum,
) -> None:
    quorum = make_quorum(1)
    quorum.start()

    def ends_early() -> Iterator[list[str]]:
        yield ["a", "b"]
        raise RuntimeError("the executor is lost")

    with pytest.raises(RuntimeError, match="the executor is lost"):
        append(quorum, ends_early())
    append(quorum, [["a", "b"], ["c"]])
    assert written(quorum) == ["a", "b", "a", "b", "c"]


def test_a_value_that_fits_no_batch(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1)
    quorum.start()
    with pytest.raises(
        RecordTooLargeError, match=r"of the rows of this task from row 2 on: values\[1\]: 2000 bytes do"
    ):
        append(quorum, [["a", "b"], ["c", "x" * 2000]], maxBatchBytes="1024")
    assert written(quorum) == ["a", "b"], "what came before it is in the log: a task is not a transaction"


def test_a_batch_above_the_quorums_limit(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1, message_max_bytes="5000")
    quorum.start()
    with pytest.raises(RecordTooLargeError, match=r"at most 5000 allowed.*maxBatchBytes, and the quorum's message.max"):
        append(quorum, [["x" * 6000]])


def test_an_unreachable_quorum(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1)
    with pytest.raises(NetworkError, match=f"quorum not reached within 500 ms: no leader: {quorum.nodes[1].endpoint}"):
        append(quorum, [["a"]], timeoutMs="500")


def test_rows_of_spark_are_read_back(spark: SparkSession, make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1)
    quorum.start()
    schema = StructType(
        [StructField("key", StringType()), StructField("n", LongType()), StructField("name", StringType())]
    )
    told = [(f"k{number}", number, None if number % 7 == 0 else f"name {number}") for number in range(500)]
    rows_of_spark = spark.createDataFrame(told, schema).repartition(2)
    live = {"bootstrapControllers": quorum.bootstrap_servers, "value.format": "msgpack"}
    rows_of_spark.write.format("kraft").options(**live).mode("append").save()

    read_schema = StructType([StructField("key", BinaryType()), *schema.fields[1:]])
    read = spark.read.format("kraft").options(**live).schema(read_schema).load().collect()
    assert sorted((bytes(row["key"]).decode(), row["n"], row["name"]) for row in read) == sorted(told)
    assert [msgpack.unpackb(value or b"").keys() for _, value in committed_rows(quorum.nodes[1])] == [
        {"n", "name"} for _ in told
    ]


def test_an_error_of_a_writer_names_what_is_wrong(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="column n: expected key, value and headers only"):
        spark.range(3).selectExpr("cast(id as string) value", "id n").write.format("kraft").option(
            "bootstrapControllers", "127.0.0.1:9"
        ).mode("append").save()


def test_a_stream_from_one_quorum_to_another(spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path) -> None:
    source, sink = make_quorum(1), make_quorum(3)
    source.start()
    sink.start()
    source.produce([f"{number}" for number in range(200)])
    stream = spark.readStream.format("kraft").option("bootstrapControllers", source.bootstrap_servers)
    copy = stream.option("maxOffsetsPerTrigger", "70").load().select("key", "value").writeStream.format("kraft")
    copy = copy.option("bootstrapControllers", sink.bootstrap_servers)
    for _ in range(2):
        query = copy.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(int(SECONDS)), "the query has not ended"
        source.produce(["one more"])
    sink.wait_until_caught_up()
    assert written(sink) == [*(f"{number}" for number in range(200)), "one more"]
