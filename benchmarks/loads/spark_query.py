"""Time a query of Spark that reads everything and keeps nothing: `python -m benchmarks.loads.spark_query --help`.

Prints as JSON how many rows there are, how long each run took, and Spark's version.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping

import click
import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from benchmarks.loads.spark_read import value_bytes
from kraft_trio.spark import session

WAIT_SECONDS = 60.0


@click.group(help=__doc__)
def main() -> None: ...


@main.command(help="Directories of replicas, by our source.")
@click.argument("path")
@click.option("--content", required=True)
@click.option("--cores", type=int, required=True)
@click.option("--rounds", type=int, required=True)
def read(path: str, content: str, cores: int, rounds: int) -> None:
    _timed(cores, rounds, {}, lambda spark: spark.read.format("kraft").option("content", content).load(path))


@main.command(help="A topic of a broker of Apache Kafka, by Spark's own connector.")
@click.argument("bootstrap")
@click.argument("topic")
@click.option("--jars", required=True, help="The connector and what it needs, with commas between them.")
@click.option("--cores", type=int, required=True)
@click.option("--rounds", type=int, required=True)
def kafka(bootstrap: str, topic: str, jars: str, cores: int, rounds: int) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    settings = {"spark.jars": jars}
    _timed(cores, rounds, settings, lambda spark: spark.read.format("kafka").options(**options).load())


@main.command(help="Fill a new topic with the records that `spark_read write` writes.")
@click.argument("bootstrap")
@click.argument("topic")
@click.option("--batches", type=int, required=True)
@click.option("--records-a-batch", type=int, required=True)
@click.option("--partitions", type=int, required=True)
def produce(bootstrap: str, topic: str, batches: int, records_a_batch: int, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=WAIT_SECONDS).values():
        created.result(WAIT_SECONDS)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.num.messages": records_a_batch,
            "linger.ms": 100,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for number in range(batches):
        for at in range(records_a_batch):
            while True:
                try:
                    producer.produce(topic, bytes(value_bytes(number, at)), partition=number % partitions)
                    break
                except BufferError:
                    producer.poll(1)
        producer.poll(0)
    if left := producer.flush(WAIT_SECONDS):
        raise click.ClickException(f"{left} records were not delivered")
    click.echo(json.dumps({"rows": batches * records_a_batch}))


def _timed(cores: int, rounds: int, settings: Mapping[str, str], frame_of: Callable[[SparkSession], DataFrame]) -> None:
    # So many for all: the JVM, its compiler, and Python's workers.
    os.sched_setaffinity(0, set(range(cores)))
    spark = session(f"local[{cores}]", "benchmark", {"spark.driver.memory": "2g", **settings})
    # Code is compiled, workers are started, files are in the system's cache.
    rows = frame_of(spark).count()
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        frame_of(spark).write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - began)
    click.echo(json.dumps({"rows": rows, "seconds": seconds, "spark": spark.version}))
    spark.stop()


if __name__ == "__main__":
    main()
