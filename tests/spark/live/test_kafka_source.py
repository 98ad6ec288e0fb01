"""The metadata of Apache Kafka's own controllers as a stream: what it gives is what is in their directories."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.command import kraft
from harness.kafka import why_no_kafka
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.waiting import wait_until
from kraft_trio.errors import RefusedError
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers
from tests.spark.live.reading import latest, make_reader_of
from tests.spark.live.reading import rows as rows_of
from tests.spark.live.to_parquet import SECONDS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(why_no_kafka() is not None, reason=str(why_no_kafka())),
]

COLUMNS = ("batch_offset", "offset", "epoch", "timestamp", "control", "control_type", "key", "value")


def test_the_stream_goes_on_when_another_controller_leads(
    spark: SparkSession, controllers: Controllers, tmp_path: Path
) -> None:
    """The only node that it is given is an observer first, and in the end the only voter."""
    stream = spark.readStream.format("kraft").option("bootstrapControllers", f"127.0.0.1:{controllers.ports[2]}")
    rows = stream.option("includeControl", "true").option("maxOffsetsPerTrigger", "20").load()
    writing = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    output = str(tmp_path / "output")

    def write_what_is_there() -> None:
        query = writing.trigger(availableNow=True).start(output)
        assert query.awaitTermination(int(SECONDS)), "the query has not ended"

    wait_until("Kafka's second controller observes", lambda: controllers.replicas(2) == ([1], [2]), JVM_SECONDS)
    wait_until(
        "Kafka's leader offers a snapshot in place of its first record", lambda: controllers.checkpoints(1), JVM_SECONDS
    )
    write_what_is_there()
    for change in (("add-controller", "-c", str(controllers.properties(2))), ("remove-controller", "-i", "1")):
        changed = controllers.ask(2, "metadata-quorum", *change)
        assert changed.returncode == 0, changed.stderr
    wait_until("the other controller leads alone", lambda: controllers.leads_alone(2), JVM_SECONDS)
    write_what_is_there()

    asked = make_reader_of(f"127.0.0.1:{controllers.ports[2]}", readReplicas=f"127.0.0.1:{controllers.ports[1]}")
    start = asked.initialOffset()
    with pytest.raises(
        RefusedError, match=r"readReplicas: .* is one of Kafka's controllers, which give records as the"
    ):
        rows_of(asked, start, latest(asked, start))

    written = spark.read.parquet(output)
    assert [row.cluster_id for row in written.select("cluster_id").distinct().collect()] == [controllers.cluster_id]
    streamed = written.select(*COLUMNS).orderBy("offset").collect()
    kept = {}
    for node_id in (1, 2):  # The second one may have begun with a snapshot of the first one.
        directory = spark.read.format("kraft").load(str(tmp_path / f"controller-{node_id}"))
        kept |= {row.offset: row for row in directory.select(*COLUMNS).collect()}
    assert streamed == [kept[offset] for offset in range(len(streamed))]
    assert len({row.epoch for row in streamed}) >= 2, "of both leaders"
    assert {"LeaderChange", "KRaftVersion", "Voters"} <= {row.control_type for row in streamed}
    assert any(row.value is not None and not row.control for row in streamed), "of Kafka's own metadata"
    times_ms = {row.offset: round(row.timestamp.timestamp() * 1000) for row in streamed}
    wanted_ms = times_ms[len(times_ms) // 2]
    asked = make_reader_of(f"127.0.0.1:{controllers.ports[2]}", startingTimestamp=str(wanted_ms))
    assert asked.initialOffset()["offset"] == min(offset for offset, ms in times_ms.items() if ms >= wanted_ms)


@pytest.mark.nightly
@pytest.mark.parametrize("controllers", [(1,)], indirect=True)
def test_an_observer_gives_their_metadata_in_their_place(controllers: Controllers, tmp_path: Path) -> None:
    observer = NodeProcess(7, tmp_path / "node-7", *free_ports(1))
    observer.write_properties(
        {
            "node.id": 7,
            "process.roles": "broker",
            "listeners": f"CLIENT://{observer.endpoint}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controllers.ports[1]}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT",
            "metadata.log.dir": observer.directory,
        }
    )
    kraft("storage", "format", "-t", controllers.cluster_id, "-N", "-c", str(observer.properties))
    observer.start()
    try:
        asked = make_reader_of(f"127.0.0.1:{controllers.ports[1]}", readReplicas=str(observer.endpoint))
        start = asked.initialOffset()
        end = latest(asked, start)
        of_leader = rows_of(make_reader_of(f"127.0.0.1:{controllers.ports[1]}"), start, end)
        assert rows_of(asked, start, end) == of_leader != []
    finally:
        observer.kill()
