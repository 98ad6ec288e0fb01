"""The stream reader against real quorums: what it gives is what is committed, whatever happens between its calls."""

from __future__ import annotations

import logging
import random
from itertools import cycle

import msgpack
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from harness.quorum import Quorum, produce_batch
from kraft_trio.errors import ConfigError, NetworkError, ProtocolError
from kraft_trio.spark.live.columns import live_schema
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.options import read_live_options
from kraft_trio.spark.live.quorum import FETCH_BYTES, OtherClusterError
from kraft_trio.spark.live.reader import LogPartition
from kraft_trio.storage.batches.batch import Compression, NewRecord, encode_batch
from tests.acceptance.conftest import MakeQuorum
from tests.spark.live.reading import batches, committed_rows, latest, make_reader, rows


@pytest.fixture(scope="module")
def one(make_module_quorum: MakeQuorum) -> Quorum:
    """One node with 100 values in 4 batches; tests append to it, and take nothing away."""
    quorum: Quorum = make_module_quorum(1)
    quorum.start()
    for number in range(4):
        quorum.produce([f"{number}-{index}" for index in range(25)])
    return quorum


def test_everything_committed_is_read_once(one: Quorum) -> None:
    reader = make_reader(one)
    start = reader.initialOffset()
    end = latest(reader, start)
    read = rows(reader, start, end)
    assert read == committed_rows(one.nodes[1])
    assert len(read) >= 100
    assert latest(reader, end) == end
    assert rows(reader, end, end) == []


def test_an_observer_spares_the_leader(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1, 1)
    quorum.start()
    quorum.produce([f"{index}" for index in range(25)])
    quorum.wait_until_caught_up()
    reader = make_reader(quorum, readReplicas=str(quorum.nodes[2].endpoint))
    start = reader.initialOffset()
    tasks = reader.partitions(start, latest(reader, start))
    quorum.nodes[1].kill()
    read = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert [(row["offset"], row["value"]) for row in read] == committed_rows(quorum.nodes[1])


def test_progress_tells_what_is_committed_even_if_little_is_read(one: Quorum) -> None:
    reader = make_reader(one)
    assert reader.reportLatestOffset() is None
    start = reader.initialOffset()
    assert latest(reader, start, 1)["offset"] == 1
    end = latest(make_reader(one), start)["offset"]
    assert reader.reportLatestOffset() == {
        "source": f"kraft[{one.bootstrap_servers}]",
        "clusterId": one.cluster_id,
        "offset": end,
    }


def test_the_checkpoint_names_cluster_offset_and_epoch(one: Quorum) -> None:
    reader = make_reader(one)
    start = reader.initialOffset()
    assert start == {"clusterId": one.cluster_id, "offset": 0, "epoch": -1, "beganAt": 0, "losses": 0}
    assert latest(reader, start, 10) == {**start, "offset": 10, "epoch": 1}


def test_a_limit_cuts_batches_and_loses_nothing(one: Quorum) -> None:
    reader = make_reader(one, maxOffsetsPerTrigger="7")
    position = reader.initialOffset()
    read = []
    while (end := latest(reader, position)) != position:
        assert end["offset"] - position["offset"] <= 7
        read += rows(reader, position, end)
        position = end
    assert read == committed_rows(one.nodes[1])


def test_tasks_read_side_by_side_what_one_reads(one: Quorum) -> None:
    reader = make_reader(one, minPartitions="3", maxOffsetsPerPartition="11")
    start = reader.initialOffset()
    end = latest(reader, start)
    partitions = reader.partitions(start, end)
    assert len(partitions) == -(-end["offset"] // 11)
    assert rows(reader, start, end) == committed_rows(one.nodes[1])
    assert [partition.wanted for partition in make_reader(one, maxOffsetsPerPartition="11").partitions(start, end)] == [
        partition.wanted for partition in partitions
    ], "a batch is planned the same after a restart"


@pytest.mark.parametrize(("starting", "begins"), [("earliest", 0), ("30", 30), ('{"offset": 31}', 31)])
def test_a_query_begins_where_it_is_told(one: Quorum, starting: str, begins: int) -> None:
    reader = make_reader(one, startingOffsets=starting)
    start = reader.initialOffset()
    assert (start["offset"], start["beganAt"]) == (begins, begins)
    assert start["epoch"] == (1 if begins else -1)
    wanted = [row for row in committed_rows(one.nodes[1]) if row[0] >= begins]
    assert rows(reader, start, latest(reader, start)) == wanted


def test_a_query_from_the_latest_offset_reads_what_comes_after(one: Quorum) -> None:
    reader = make_reader(one, startingOffsets="latest")
    start = reader.initialOffset()
    offset = one.produce(["later"])
    assert rows(reader, start, latest(reader, start)) == [(offset, b"later")]


def test_a_first_batch_cut_short_is_read_again_unchanged(one: Quorum) -> None:
    reader = make_reader(one, startingOffsets="latest")
    start = reader.initialOffset()
    offset = one.produce(["first"])
    end = latest(reader, start)
    one.produce(["second"])
    restarted = make_reader(one, startingOffsets="latest")
    assert rows(restarted, restarted.initialOffset(), end) == [(offset, b"first")]


def test_an_offset_that_nothing_is_committed_at_yet_is_refused(one: Quorum) -> None:
    with pytest.raises(ValueError, match=f"offset 100000: cluster {one.cluster_id} has committed offsets up to"):
        make_reader(one, startingOffsets="100000").initialOffset()


def test_available_now_ends_at_what_was_committed_then(one: Quorum) -> None:
    reader = make_reader(one, maxOffsetsPerTrigger="40")
    reader.prepareForTriggerAvailableNow()
    wanted = committed_rows(one.nodes[1])
    one.produce(["too late"])
    position, read = reader.initialOffset(), []
    while (end := latest(reader, position)) != position:
        read += rows(reader, position, end)
        position = end
    assert read == wanted


def test_control_records_and_headers_are_there_on_request(one: Quorum) -> None:
    reader = make_reader(one, includeControl="true", includeHeaders="true")
    start = reader.initialOffset()
    end = latest(reader, start)
    read = [row for batch in batches(reader, start, end) for row in batch.to_pylist()]
    assert [row["offset"] for row in read] == list(range(end["offset"]))
    assert [row["control_type"] for row in read[:3]] == ["LeaderChange", "KRaftVersion", "Voters"]
    assert [row["control"] for row in read[:4]] == [True, True, True, False]
    assert read[3]["headers"] == []
    assert read[3]["cluster_id"] == one.cluster_id


def test_a_schema_chooses_the_columns(one: Quorum) -> None:
    schema = StructType([StructField("epoch_not", LongType())])
    with pytest.raises(ConfigError, match="there is no column epoch_not; known are cluster_id"):
        make_reader(one, schema)
    with pytest.raises(ConfigError, match="column offset is string, expected int64"):
        make_reader(one, StructType([StructField("offset", StringType())]))
    reader = make_reader(one, StructType([StructField("offset", LongType())]))
    start = reader.initialOffset()
    (batch, *_) = batches(reader, start, latest(reader, start))
    assert batch.schema.names == ["offset"]


def test_a_checkpoint_of_another_cluster_is_refused(one: Quorum, make_quorum: MakeQuorum) -> None:
    other = make_quorum(1)
    other.start()
    other.leader()
    reader = make_reader(other, failOnDataLoss="false")
    start = make_reader(one).initialOffset()
    with pytest.raises(OtherClusterError, match=f"of cluster {one.cluster_id}.*of cluster {other.cluster_id}"):
        latest(reader, start)
    end = latest(make_reader(one), start)
    with pytest.raises(OtherClusterError, match=f"of cluster {one.cluster_id}.*of cluster {other.cluster_id}"):
        reader.partitions(start, end)
    partition = LogPartition(
        read_live_options({"bootstrapControllers": other.bootstrap_servers}), LogRange(one.cluster_id, 0, 5)
    )
    with pytest.raises(OtherClusterError):
        list(reader.read(partition))


def test_an_unreachable_quorum_ends_no_query(make_quorum: MakeQuorum, caplog: pytest.LogCaptureFixture) -> None:
    quorum = make_quorum(1)
    quorum.start()
    reader = make_reader(quorum, timeoutMs="5000")
    start = latest(reader, reader.initialOffset())
    quorum.produce(["x"])
    reader.prepareForTriggerAvailableNow()
    quorum.kill_all()
    with caplog.at_level(logging.WARNING, "kraft_trio.spark"):
        unheard = make_reader(quorum)
        assert unheard.latestOffset(start, unheard.getDefaultReadLimit()) == start
    assert "no news of the log, the query continues when there are: quorum not reached" in caplog.text
    assert str(quorum.nodes[1].endpoint) in caplog.text
    with pytest.raises(NetworkError, match=f"quorum not reached within 5000 ms: no leader: {quorum.nodes[1].endpoint}"):
        latest(reader, start)  # With AvailableNow the query would end without what there is.
    with pytest.raises(NetworkError, match="quorum not reached within 1000 ms"):
        make_reader(quorum, timeoutMs="1000").initialOffset()
    quorum.start()
    assert [value for _, value in rows(reader, start, latest(reader, start))] == [b"x"]


def test_messagepack_values_are_columns(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1)
    quorum.start()
    values = [msgpack.packb({"n": 1, "name": "a"}), b"\xc1", msgpack.packb({"n": "two", "name": "b"})]
    first = produce_batch(
        quorum.leader(), encode_batch([NewRecord(value) for value in values], timestamp_ms=0)
    ).base_offset
    fields = [StructField("offset", LongType()), StructField("n", IntegerType()), StructField("name", StringType())]
    whole = StructField("value", StructType([StructField("n", IntegerType())]))
    schema = StructType([*fields, whole])
    reader = make_reader(quorum, schema, value__format="msgpack", includeControl="true")
    start = reader.initialOffset()
    end = latest(reader, start)
    read = [row for batch in batches(reader, start, end) for row in batch.to_pylist()]
    assert read[:3] == [{"offset": at, "n": None, "name": None, "value": None} for at in range(3)], "control records"
    assert read[3:] == [
        {"offset": first, "n": 1, "name": "a", "value": {"n": 1}},
        {"offset": first + 1, "n": None, "name": None, "value": None},
        {"offset": first + 2, "n": None, "name": "b", "value": None},
    ]
    failfast = make_reader(quorum, schema, value__format="msgpack", mode="FAILFAST")
    with pytest.raises(ProtocolError, match=rf"offset {first + 1}: value: b'\\xc1' is not MessagePack"):
        list(batches(failfast, start, end))
    with pytest.raises(ConfigError, match=r"value.format=msgpack: give the columns of the values with schema"):
        live_schema({"bootstrapControllers": quorum.bootstrap_servers, "value.format": "msgpack"})


def test_compressed_batches_and_more_than_one_answer_holds(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1)
    quorum.start()
    leader = quorum.leader()
    expected = []
    for number, compression in zip(range(60), cycle(Compression)):
        values = [random.Random(number).randbytes(50_000), f"small {number}".encode()]
        batch = encode_batch([NewRecord(value) for value in values], timestamp_ms=5, compression=compression)
        offset = produce_batch(leader, batch).base_offset
        expected += [(offset + index, value) for index, value in enumerate(values)]
    assert sum(len(value) for _, value in expected) > FETCH_BYTES
    reader = make_reader(quorum, maxOffsetsPerPartition="101")
    start = reader.initialOffset()
    assert rows(reader, start, latest(reader, start)) == expected
