"""A streaming query that writes what it reads to Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.acceptance.quorum import Quorum
from tests.acceptance.waiting import wait_until
from tests.spark.live.reading import Rows

SECONDS = 120.0
"""A micro-batch takes seconds where the machine is busy."""


class ToParquet:
    """A query that appends what it reads to Parquet files, and can be stopped and started again from its checkpoint."""

    def __init__(self, spark: SparkSession, quorum: Quorum, directory: Path, **options: str) -> None:
        self._spark = spark
        self._quorum = quorum
        self._options = options
        self.output = directory / "output"
        self.checkpoint = directory / "checkpoint"

    def stream(self, bootstrap: str | None = None) -> DataFrame:
        reader = self._spark.readStream.format("kraft").options(**self._options)
        return reader.option("bootstrapControllers", bootstrap or self._quorum.bootstrap_servers).load()

    @contextmanager
    def running(self, bootstrap: str | None = None) -> Iterator[StreamingQuery]:
        """While the block runs; raises what the query has failed with."""
        rows = self.stream(bootstrap).select("offset", "value")
        query = (
            rows.writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint))
            .start(str(self.output))
        )
        try:
            yield query
        finally:
            query.stop()
        failure = query.exception()
        if failure is not None:
            raise failure

    def run_available(self) -> None:
        rows = self.stream().select("offset", "value")
        query = (
            rows.writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start(str(self.output))
        )
        assert query.awaitTermination(int(SECONDS)), "the query has not ended"

    def rows(self) -> Rows:
        """Everything that was written by micro-batches that are whole, in the order of the offsets."""
        read = self._spark.read.parquet(str(self.output)).collect()
        return sorted((row["offset"], None if row["value"] is None else bytes(row["value"])) for row in read)

    def wait_until_written(self, query: StreamingQuery, offset: int) -> None:
        """Until a micro-batch with that offset is done.  Raises what the query fails with."""

        def written() -> bool:
            failure = query.exception()
            if failure is not None:
                raise failure
            progress = query.lastProgress
            return progress is not None and json.loads(progress["sources"][0]["endOffset"])["offset"] > offset

        wait_until(f"offset {offset} is written", written, SECONDS, 0.1)
