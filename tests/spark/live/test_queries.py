"""Streaming queries of Spark over real quorums: their output is the committed log, whatever happens while they run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.acceptance.conftest import MakeQuorum
from tests.spark.live.reading import command, committed_rows
from tests.spark.live.to_parquet import SECONDS, ToParquet


def test_leaders_die_while_a_query_runs_and_it_is_restarted(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path
) -> None:
    quorum = make_quorum(3)
    quorum.start()
    query = ToParquet(spark, quorum, tmp_path, maxOffsetsPerTrigger="50", maxOffsetsPerPartition="20")
    quorum.produce([f"before {index}" for index in range(30)])
    with query.running():
        query.wait_until_written(quorum.produce(["first"]))
        quorum.leader().kill()
        query.wait_until_written(quorum.produce(["after the kill"]))
    quorum.start([node.id for node in quorum.nodes.values() if not node.running])
    quorum.produce([f"while it is stopped {index}" for index in range(70)])
    with query.running():
        quorum.leader().kill()
        last = quorum.produce(["last"])
        query.wait_until_written(last)
    quorum.start([node.id for node in quorum.nodes.values() if not node.running])
    quorum.wait_until_caught_up()
    assert query.rows() == committed_rows(quorum.nodes[1])


def test_voters_come_and_go_while_a_query_runs(spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path) -> None:
    """In the end the only node that the query was given first is no voter any more, and down."""
    quorum = make_quorum(1, observers=2, controller_quorum_fetch_timeout_ms="6000")
    quorum.start()
    first, second, third = quorum.nodes.values()
    query = ToParquet(spark, quorum, tmp_path, bootstrapControllers=str(first.endpoint))
    with query.running():
        query.wait_until_written(quorum.produce(["one voter"]))
        for node in (second, third):
            command(
                *("metadata-quorum", "--bootstrap-controller", str(first.endpoint)),
                *("--command-config", str(node.properties), "add-controller"),
            )
        query.wait_until_written(quorum.produce(["three voters"]))
        command(
            "metadata-quorum", "--bootstrap-controller", str(second.endpoint), "remove-controller", "-i", str(first.id)
        )
        first.kill()
        query.wait_until_written(quorum.produce(["two voters"], besides=first.id))
    quorum.wait_until_caught_up([second.id, third.id])
    assert query.rows() == committed_rows(second)


def test_available_now_ends_and_a_foreign_checkpoint_is_refused(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path
) -> None:
    quorum, other = make_quorum(1), make_quorum(1)
    for one in (quorum, other):
        one.start()
        one.produce([f"{number}" for number in range(100)])

    def read_all_of(bootstrap_servers: str) -> list[int]:
        """The rows of each micro-batch."""
        options = {"bootstrapControllers": bootstrap_servers, "maxOffsetsPerTrigger": "60", "failOnDataLoss": "false"}
        writing = spark.readStream.format("kraft").options(**options).load().writeStream.format("parquet")
        writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query = writing.start(str(tmp_path / "output"))
        assert query.awaitTermination(int(SECONDS)), "the query has not ended"
        return [progress["numInputRows"] for progress in query.recentProgress]

    control_records = committed_rows(quorum.nodes[1])[0][0]
    assert read_all_of(quorum.bootstrap_servers) == [60 - control_records, 40 + control_records]
    with pytest.raises(
        StreamingQueryException,
        match=f"the checkpoint is of cluster {quorum.cluster_id}, the nodes at bootstrapControllers are of cluster "
        f"{other.cluster_id}: give the nodes of the first, or another checkpointLocation",
    ):
        read_all_of(other.bootstrap_servers)
    written = spark.read.parquet(str(tmp_path / "output")).orderBy("offset").select("offset", "value").collect()
    assert [(row.offset, bytes(row.value)) for row in written] == committed_rows(quorum.nodes[1])
