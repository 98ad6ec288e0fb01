"""Spark's own Kafka connector over our nodes; needs its jars, which scripts/get-spark-kafka gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.acceptance.conftest import MakeQuorum
from tests.spark.conftest import connector_jars
from tests.spark.documents import program
from tests.spark.live.programs import run_program
from tests.spark.live.reading import committed_rows
from tests.spark.live.test_document import SHOWN_QUORUM, in_its_first_epoch
from tests.spark.live.to_parquet import SECONDS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not connector_jars(), reason="needs jars: scripts/get-spark-kafka"),
]

TOPIC = "__cluster_metadata"


def test_a_program_prints_what_it_says(spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path) -> None:
    quorum = in_its_first_epoch(make_quorum)
    shown = program("Spark's own Kafka connector")
    assert SHOWN_QUORUM in shown.text
    (tmp_path / "program.py").write_text(shown.text.replace(SHOWN_QUORUM, quorum.bootstrap_servers))
    assert run_program(tmp_path / "program.py").strip() == shown.output.strip()


def test_rows_and_options_of_the_connector_are_those_of_kraft(spark: SparkSession, make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1, is_steady=True)
    quorum.start()
    quorum.produce(["first", "second"])
    log = {
        "kafka.bootstrap.servers": quorum.bootstrap_servers,
        "subscribe": TOPIC,
        "startingOffsets": f'{{"{TOPIC}": {{"0": -2}}}}',
        "includeHeaders": "true",
    }
    theirs = spark.read.format("kafka").options(**log).load()
    before = theirs.collect()
    target = {"kafka.bootstrap.servers": quorum.bootstrap_servers, "topic": TOPIC}
    theirs.write.format("kraft").options(**target).mode("append").save()
    written = theirs.orderBy("offset").collect()
    assert [bytes(row.value) for row in written] == [b"first", b"second"] * 2
    ours = spark.read.format("kraft").options(**log, includeKafkaColumns="true").load()
    columns = [name for name in theirs.columns if name != "headers"]
    assert ours.select(*columns).orderBy("offset").collect() == theirs.select(*columns).orderBy("offset").collect()
    assert ours.select("headers").schema.simpleString() == theirs.select("headers").schema.simpleString()
    assert len(before) == 2


@pytest.mark.nightly
def test_a_stream_and_writers_go_on_when_another_node_leads(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path
) -> None:
    """The checkpoint of a query continues, and rows are read once; each leader is killed."""
    quorum = make_quorum(3)
    quorum.start()
    servers = {"kafka.bootstrap.servers": quorum.bootstrap_servers}
    stream = spark.readStream.format("kafka").options(**servers, subscribe=TOPIC, startingOffsets="earliest").load()
    copy = stream.select("offset", "value").writeStream.format("parquet").trigger(availableNow=True)
    copy = copy.option("checkpointLocation", str(tmp_path / "checkpoint"))
    expected = []
    for leader in range(2):
        values = [f"{leader}-{number}" for number in range(20)]
        rows = spark.createDataFrame([(value,) for value in values], "value string").coalesce(1)
        rows.write.format("kafka").options(**servers, topic=TOPIC).save()
        query = copy.start(str(tmp_path / "rows"))
        assert query.awaitTermination(int(SECONDS)), "the query has not ended"
        quorum.leader().kill()
        quorum.start([node.id for node in quorum.nodes.values() if not node.running])
        expected += values
    written = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [bytes(row.value).decode() for row in written] == expected
    quorum.wait_until_caught_up()
    assert [(row.offset, bytes(row.value)) for row in written] == committed_rows(quorum.nodes[1])
