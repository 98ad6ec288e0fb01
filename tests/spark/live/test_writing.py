"""Rows written to real quorums and read back: each is there once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest
import trio
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from harness.quorum import Quorum
from harness.waiting import wait_until
from kraft_trio.errors import NetworkError, RecordTooLargeError
from kraft_trio.spark.writing.completeness import RepeatedWriteError
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.spark.writing.offsets import Appended
from kraft_trio.spark.writing.options import read_write_options
from kraft_trio.spark.writing.rows import RecordMaker
from kraft_trio.spark.writing.writer import append_all, make_stream_writer, make_writer
from tests.acceptance.conftest import MakeQuorum
from tests.spark.live.reading import committed_rows
from tests.spark.live.to_parquet import SECONDS

VALUES = StructType([StructField("value", StringType())])


ONE, TWO = "1" * 700, "2" * 700
"""Each fills a batch of 1,024 bytes."""
OF = PartitionWrite(Write("a write", 0), 0)


def append(quorum: Quorum, values: Iterable[list[str]], of: PartitionWrite = OF, **options: str) -> Appended:
    """A task's work, without Spark; each list is one Arrow batch."""
    read = read_write_options({"bootstrapControllers": quorum.bootstrap_servers, "timeoutMs": "20000", **options})
    batches = (pa.record_batch({"value": pa.array(texts)}) for texts in values)
    return trio.run(append_all, read, RecordMaker.of(VALUES, is_msgpack=False), of, batches)


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
    assert append(make_quorum(1), []) == Appended(OF)


def test_a_leader_that_dies_between_two_batches(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(3)
    quorum.start()

    def batches() -> Iterator[list[str]]:
        yield [ONE, TWO]
        quorum.leader().kill()
        yield ["three", "four"]

    assert append(quorum, batches(), maxBatchBytes="1024").records == 4
    quorum.start([node.id for node in quorum.nodes.values() if not node.running])
    quorum.wait_until_caught_up()
    assert written(quorum) == [ONE, TWO, "three", "four"]


@pytest.mark.parametrize("is_same_write", [True, False])
def test_a_failed_attempt_keeps_its_commits(make_quorum: MakeQuorum, is_same_write: bool) -> None:
    """The next attempt completes them, unless it is another write."""
    quorum = make_quorum(1)
    quorum.start()

    def ends_early() -> Iterator[list[str]]:
        yield [ONE, TWO]
        raise RuntimeError("the executor is lost")

    with pytest.raises(RuntimeError, match="the executor is lost"):
        append(quorum, ends_early(), maxBatchBytes="1024")
    assert written(quorum) == [ONE]
    of = OF if is_same_write else PartitionWrite(Write.nameless(), 0)
    appended = append(quorum, [[ONE], [TWO, "c"]], of, maxBatchBytes="1024")
    assert written(quorum) == [*([] if is_same_write else [ONE]), ONE, TWO, "c"]
    assert (appended.records, appended.repeated) == (3, 1 if is_same_write else 0)


def test_a_value_that_fits_no_batch(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1)
    quorum.start()
    with pytest.raises(
        RecordTooLargeError, match=r"of the rows of this task from row 1 on: values\[2\]: 2000 bytes do"
    ):
        append(quorum, [[ONE, TWO], ["c", "x" * 2000]], maxBatchBytes="1024")
    assert written(quorum) == [ONE], "batches before it are in the log: a task is not a transaction"


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


@pytest.mark.parametrize("is_exactly_once", [True, False])
def test_a_write_that_the_log_has_otherwise_is_not_finished(make_quorum: MakeQuorum, is_exactly_once: bool) -> None:
    """By the driver, of a stream as of a batch.  Here, an earlier attempt had more rows, and another partition."""
    quorum = make_quorum(1)
    quorum.start()
    ours = append(quorum, [[ONE]])
    append(quorum, [[TWO]], PartitionWrite(OF.write, 1))
    options = {"bootstrapControllers": quorum.bootstrap_servers, "exactlyOnce": str(is_exactly_once)}
    writers = make_writer(options, VALUES, overwrite=False), make_stream_writer(options, VALUES, overwrite=False)
    for commit in (writers[0].commit, partial(writers[1].commit, batchId=0)):
        if is_exactly_once:
            with pytest.raises(RepeatedWriteError, match="partition 1: the log has 1 rows of it, this attempt 0"):
                commit([ours])
        else:
            commit([ours])


def test_a_named_write_is_done_once(spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path) -> None:
    """And the driver tells where its rows are."""
    quorum = make_quorum(1)
    quorum.start()
    rows = spark.range(0, 100, numPartitions=2).selectExpr("cast(id as string) value")

    def save(version: int) -> dict[str, Any]:
        write = rows.write.format("kraft").option("bootstrapControllers", quorum.bootstrap_servers)
        write = write.option("txnAppId", "nightly").option("txnVersion", version).option("maxBatchBytes", 1024)
        write.option("offsetsPath", str(tmp_path)).mode("append").save()
        told: dict[str, Any] = json.loads((tmp_path / f"{version}.json").read_text())
        return told

    told = [save(version) for version in (1, 1, 2)]
    assert sorted(map(int, written(quorum))) == sorted([*range(100), *range(100)])
    repeated = [[task.pop("repeated") for task in one["partitions"]] for one in told]
    assert repeated == [[0, 0], [50, 50], [0, 0]]
    assert told[0] == told[1]
    at = {offset: int(value or b"") for offset, value in committed_rows(quorum.nodes[1])}
    for task, first in zip(told[0]["partitions"], (0, 50), strict=True):
        assert (at[task["firstOffset"]], at[task["lastOffset"]], task["records"]) == (first, first + 49, 50)
    with pytest.raises(Exception, match="txnVersion has fallen"):
        save(1)


def test_an_error_of_a_writer_names_what_is_wrong(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="column n: expected key, value and headers only"):
        spark.range(3).selectExpr("cast(id as string) value", "id n").write.format("kraft").option(
            "bootstrapControllers", "127.0.0.1:9"
        ).mode("append").save()


@pytest.mark.parametrize("is_exactly_once", [True, False])
def test_a_micro_batch_that_is_repeated(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path, is_exactly_once: bool
) -> None:
    """Its rows are in the log, and the checkpoint does not know: as after a driver that died too soon."""
    quorum = make_quorum(1)
    quorum.start()
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).option("numPartitions", 2).load()
    write = rates.selectExpr("cast(value as string) value").writeStream.format("kraft")
    write = write.option("bootstrapControllers", quorum.bootstrap_servers).option("exactlyOnce", is_exactly_once)
    write = write.option("checkpointLocation", str(tmp_path)).trigger(processingTime="1 hour")

    def run_one() -> None:
        query = write.start()
        try:
            wait_until("a micro-batch is done", lambda: query.exception() or query.recentProgress, SECONDS)
            assert query.exception() is None
        finally:
            query.stop()

    run_one()
    for commit in (tmp_path / "commits").iterdir():
        commit.unlink()
    run_one()
    rows = sorted(map(int, written(quorum)))
    assert rows == sorted([*range(50)] * (1 if is_exactly_once else 2))


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
