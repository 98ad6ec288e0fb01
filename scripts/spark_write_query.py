"""The query that scripts/spark_write_soak.py kills: numbered rows, in micro-batches that are the same when repeated.

`python -m scripts.spark_write_query BOOTSTRAP DIRECTORY MASTER EXACTLY_ONCE` runs until it is killed.
"""

from __future__ import annotations

import sys
from typing import Final

from kraft_trio.spark import session

ROWS: Final = 1000
"""Of a micro-batch."""
PARTITIONS: Final = 2
"""Row n is of partition n % PARTITIONS."""
VALUE_BYTES: Final = 100
BATCH_BYTES: Final = 4096
"""Several batches of the log for each partition, so that attempts die between them."""

SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "600m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "ERROR",
    "spark.task.maxFailures": "20",
    # Executors that are lost again and again are started again and again.
    "spark.deploy.maxExecutorRetries": "-1",
    # A task that takes longer than the other one gets a second attempt at the same time.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.05",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
}


def main(bootstrap_servers: str, directory: str, master: str, exactly_once: str) -> None:
    settings = {
        **SETTINGS,
        "spark.local.dir": f"{directory}/local",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
    }
    spark = session(master, "spark-write-soak", settings)
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    rows = (
        numbers.option("numPartitions", PARTITIONS)
        .load()
        .selectExpr(f"rpad(cast(value as string), {VALUE_BYTES}, '.') as value")
    )
    writing = rows.writeStream.format("kraft").option("bootstrapControllers", bootstrap_servers)
    writing = writing.option("exactlyOnce", exactly_once)
    writing = writing.option("maxBatchBytes", BATCH_BYTES).option("offsetsPath", f"{directory}/offsets")
    writing.option("checkpointLocation", f"{directory}/checkpoint").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
