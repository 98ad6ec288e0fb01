"""Read a live quorum from its first offset to its end, over and over: `python -m benchmarks.loads.spark_stream --help`.

Prints a line of JSON for each time: rows, seconds, the processor time of this process and all that it has started, and
that of the quorum's nodes.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from benchmarks.kraft_client import TOPIC
from benchmarks.processes import cpu_seconds, tree_cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES_AT_ONCE = 10_000
POLL_SECONDS = 1.0
WARM_UP_ROWS = 100_000


@click.command(help=__doc__)
@click.argument("way", type=click.Choice(["spark", "reader", "consumer"]))
@click.argument("bootstrap")
@click.option("--rounds", type=click.IntRange(1), required=True)
@click.option("--tasks", type=click.IntRange(1), default=2, show_default=True, help="How many of Spark run at a time.")
@click.option("--node", "nodes", type=int, multiple=True, help="The process id of a node, whose time is told, too.")
def main(way: str, bootstrap: str, rounds: int, tasks: int, nodes: tuple[int, ...]) -> None:
    if way == "consumer":
        _repeat(lambda: consume(bootstrap), rounds, nodes)
    elif way == "reader":
        _repeat(lambda: read(bootstrap), rounds, nodes)
    else:
        from kraft_trio.spark import session

        with tempfile.TemporaryDirectory() as scratch:
            spark = session(f"local[{tasks}]", "stream", {"spark.local.dir": scratch})
            try:
                # The first query starts Python's workers, and the JVM is slow at its beginning.
                stream(spark, bootstrap, {"maxOffsetsPerTrigger": str(WARM_UP_ROWS)})
                _repeat(lambda: stream(spark, bootstrap, {}), rounds, nodes)
            finally:
                spark.stop()


def stream(spark: SparkSession, bootstrap: str, options: dict[str, str]) -> int:
    """A query with all columns up to what is committed now, whose rows go nowhere."""
    source = spark.readStream.format("kraft").option("bootstrapControllers", bootstrap).options(**options)
    query = source.load().writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def read(bootstrap: str) -> int:
    """The same by the same reader, whose methods are called as Spark calls them, one task after the other."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from kraft_trio.spark.live.columns import live_columns
    from kraft_trio.spark.live.options import read_live_options
    from kraft_trio.spark.live.reader import make_stream_reader
    from kraft_trio.spark.schemas import arrow_schema

    options = {"bootstrapControllers": bootstrap}
    schema = from_arrow_schema(arrow_schema(live_columns(read_live_options(options))))
    reader = make_stream_reader(options, schema)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    read: Any = (rows for partition in reader.partitions(start, end) for rows in reader.read(partition))
    return sum(rows.num_rows for rows in read)


def consume(bootstrap: str) -> int:
    """The same by librdkafka, each record an object of Python's with its offset, timestamp, key and value read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # It would wait a second whenever it is 100,000 messages ahead.
            "fetch.queue.backoff.ms": 1,
            "enable.partition.eof": True,
        }
    )
    rows = 0
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        while True:
            for message in consumer.consume(MESSAGES_AT_ONCE, POLL_SECONDS):
                error = message.error()
                if error is None:
                    _ = (message.offset(), message.timestamp(), message.key(), message.value())
                    rows += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    return rows
                elif message.topic() is not None:  # Without one it is of the consumer group, and there are none.
                    raise click.ClickException(str(error))
    finally:
        consumer.close()


def _repeat(way: Callable[[], int], rounds: int, nodes: Sequence[int]) -> None:
    for _ in range(rounds):
        began, cpu_s, nodes_cpu_s = time.perf_counter(), tree_cpu_seconds(os.getpid()), cpu_seconds(nodes)
        rows = way()
        answer = {
            "rows": rows,
            "seconds": time.perf_counter() - began,
            "cpu_s": tree_cpu_seconds(os.getpid()) - cpu_s,
            "nodes_cpu_s": cpu_seconds(nodes) - nodes_cpu_s,
        }
        click.echo(json.dumps(answer))


if __name__ == "__main__":
    main()
